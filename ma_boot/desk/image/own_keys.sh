# shellcheck shell=sh
# Prints, as root, the files of an image that contain a key of the user: lines of found<TAB>number<TAB>file, `end` last.
# The first argument is a directory with one file per key, named by its number, and `all` with one key per line. The others
# are the directories to search: the image's layers, where a file stays that a later layer removes, or / alone.
keys=$1
shift
PATH=${PATH:-/usr/bin}:/usr/bin:/bin # the image's own PATH may lack the system's directories
LC_ALL=C                             # bytes, not characters: grep is several times faster
export LC_ALL
command -v find >/dev/null 2>&1 && command -v grep >/dev/null 2>&1 || exit 3

for layer; do
    cd "$layer" 2>/dev/null || continue
    find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ".$keys" \) -prune -o \
        -type f -size +0 -exec grep -lF -f "$keys/all" {} + 2>/dev/null | while IFS= read -r file; do
        name=${file#.}
        [ -e "$name" ] || [ -L "$name" ] || name="$name (removed later, but still in its layer)"
        for key in "$keys"/[0-9]*; do
            grep -qF -f "$key" "$file" && printf 'found\t%s\t%s\n' "${key##*/}" "$name"
        done
    done
done
printf 'end\tok\n'
