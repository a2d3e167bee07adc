# shellcheck shell=sh
# Examines an image as the user that ModelArts starts, and prints lines of name<TAB>value, `end` last.
# Uses POSIX sh and its built-ins as far as possible: slim images have little else. No here-documents: some shells
# put them into files in /tmp. $1 is the program that imports all that the toolkit imports.
home=/home/ma-user
tab=$(printf '\t')
newline='
'
say() { printf '%s\t%s\n' "$1" "$2"; }
found() { command -v "$1" >/dev/null 2>&1; }

# answer PREFIX COMMAND...: `PREFIX<TAB>exit code<TAB>last line of its output`
answer() {
    prefix=$1
    shift
    text=$("$@" 2>&1)
    printf '%s\t%s\t%s' "$prefix" "$?" "${text##*"$newline"}"
}

# Where a python really is, and what of its packages cannot be read; nothing below that is looked for. Of any version.
itself='
import os, sys
place = sys.argv[1]
print("real\t%s\t%s" % (place, os.path.realpath(sys.executable)))
def closed(path, needed):
    if not os.access(path, needed):
        print("closed_package\t%s\t%s" % (place, path))
for root in sys.path:
    if os.path.basename(root) in ("site-packages", "dist-packages"):
        closed(root, os.R_OK | os.X_OK)
        for directory, names, files in os.walk(root):
            names[:] = [name for name in names if name != "__pycache__"]
            for name in names:
                closed(os.path.join(directory, name), os.R_OK | os.X_OK)
            for name in files:
                closed(os.path.join(directory, name), os.R_OK)
'

# ask NAME PLACE PYTHON: `NAME<TAB>PLACE` with the version or the error of a python, and what it tells of itself.
# As ma_boot starts the training: a PYTHONHOME of another environment is removed.
ask() (
    unset PYTHONHOME
    say "$1" "$(answer "$2" "$3" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')"
    "$3" -c "$itself" "$2" 2>/dev/null
)

# closed PATH: the first directory on the way to PATH, by all links, that cannot be entered
closed() {
    way=
    rest=${1#/}/
    links=0
    while [ -n "$rest" ]; do
        [ -x "$way/" ] || break
        case ${rest%%/*} in
            '' | .) ;;
            ..) way=${way%/*} ;;
            *) way=$way/${rest%%/*} ;;
        esac
        rest=${rest#*/}
        if [ -L "$way" ] && [ "$((links += 1))" -lt 40 ]; then
            target=$(PATH=$PATH:/usr/bin:/bin readlink "$way") || break
            case $target in /*) way= ;; *) way=${way%/*} ;; esac
            rest=${target#/}/$rest
        fi
    done
    [ ! -d "$way" ] || [ -x "$way/" ] || printf '%s' "$way"
}

# bar PATH [FILE]: what is on the way to PATH, or to FILE that it needs, if it is closed
bar() {
    barred=$(closed "${2:-$1}")
    [ -z "$barred" ] || say barred "$1$tab$barred"
}

# bar_python PYTHON: the same of a python, and of the one from which its virtual environment was made
bar_python() {
    bar "$1"
    [ -r "${1%/bin/*}/pyvenv.cfg" ] || return 0
    while IFS= read -r line; do
        case $line in "home = "*) bar "$1" "${line#home = }/python3" ;; esac
    done <"${1%/bin/*}/pyvenv.cfg"
}

# place PATH: `ok`, `missing`, `closed`, `read-only` or `file`
place() {
    if [ -n "$(closed "$1")" ]; then printf 'closed'
    elif [ -d "$1" ]; then
        if (: >"$1/.ma_boot-probe") 2>/dev/null; then rm -f "$1/.ma_boot-probe"; printf 'ok'; else printf 'read-only'; fi
    elif [ -e "$1" ]; then printf 'file'
    else printf 'missing'; fi
}

found uname && say machine "$(uname -m)"
if [ -r /etc/passwd ]; then
    while IFS= read -r line; do say passwd "$line"; done </etc/passwd
elif [ -e /etc/passwd ]; then
    say passwd_closed yes
fi
if [ -r /etc/group ]; then
    while IFS= read -r line; do say group "$line"; done </etc/group
fi

say home "$(place $home)"
for directory in /tmp $home/modelarts /cache /user /user/config; do say place "$directory$tab$(place "$directory")"; done
cd "$home" 2>/dev/null || cd /

for program in sh bash; do
    if found "$program" || [ -x "/bin/$program" ]; then say program "$program"; fi
done
for directory in /bin /usr/bin; do
    [ ! -L "$directory" ] || say link "$directory$tab$(cd -P "$directory" && pwd -P)"
done

# The boot command as a job starts it: the first executable `ma_boot` on PATH, else the first one at all.
boot=
ifs=$IFS
IFS=:
for directory in $PATH; do
    [ -z "$boot" ] && [ -f "$directory/ma_boot" ] && [ -x "$directory/ma_boot" ] && boot=$directory/ma_boot
done
for directory in $PATH; do
    [ -z "$boot" ] && [ -e "$directory/ma_boot" ] && boot=$directory/ma_boot
done
IFS=$ifs
if [ -n "$boot" ]; then
    say boot "$(answer "$boot" ma_boot --version)"
    IFS= read -r line <"$boot" 2>/dev/null
    case $line in "#!"*"$(printf '\r')") say boot_crlf yes ;; esac
fi
if [ -e /opt/ma_boot/bin/python ] || [ -L /opt/ma_boot/bin/python ]; then
    say toolkit "$(answer /opt/ma_boot /opt/ma_boot/bin/python -I -m ma_boot --version)"
    say imports "$(answer /opt/ma_boot /opt/ma_boot/bin/python -I -c "$1")"
fi

for root in ${ANACONDA_DIR:-$home/anaconda $home/anaconda3 $home/miniconda3 $home/miniforge3}; do
    bar "$root" "$root/envs/${DEFAULT_CONDA_ENV_NAME:-}"
    for python in "$root/bin/python" "$root"/envs/*/bin/python; do
        [ -e "$python" ] || [ -L "$python" ] || continue
        bar_python "$python"
        ask environment "${python%/bin/python}" "$python"
    done
done
# As ma_boot looks for it: `python` in all of PATH, then `python3`, but not in the toolkit's own directory.
IFS=:
for name in python python3; do
    for directory in $PATH; do
        [ "$(cd -P "$directory" 2>/dev/null && pwd -P)" != /opt/ma_boot/bin ] || continue
        [ ! -L "$directory/$name" ] || bar "$directory/$name"
        if [ -f "$directory/$name" ] && [ -x "$directory/$name" ]; then
            ask path_python "$directory/$name" "$directory/$name"
            break 2
        fi
    done
done
IFS=$ifs

[ -z "${TZ:-}" ] || [ -e "/usr/share/zoneinfo/${TZ#:}" ] || say zone missing
for name in SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE BASH_ENV; do
    eval "file=\${$name:-}"
    [ -z "$file" ] || [ -r "$file" ] || say unreadable "$name$tab$file"
done
for directory in /usr/local/nvidia /usr/local/Ascend/driver; do
    for entry in "$directory"/*; do
        [ ! -e "$entry" ] || say driver "$entry"
    done
done
PATH=$PATH:/usr/bin:/bin # from here on, whatever the image's own is
if found getconf; then say libc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"; fi
if found find && found grep; then # the versions of glibc that each program and library of the toolkit asks for
    find /opt/ma_boot -type f \( -name '*.so*' -o -path '*/bin/python*' \) \
        -exec grep -aoE 'GLIBC_(2\.[0-9]+|ABI_DT_RELR)' /dev/null {} + 2>/dev/null |
        while IFS= read -r line; do say libc_need "${line##*:}$tab${line%:*}"; done
fi
if found find; then
    find / -xdev -type f \( -name 'libcuda.so.[0-9]*' -o -name 'libnvidia-ml.so.[0-9]*' -o -name nvidia-smi \) \
        2>/dev/null | while IFS= read -r file; do say driver "$file"; done
    find / -xdev -type f \( -perm -4000 -o -perm -2000 \) 2>/dev/null |
        while IFS= read -r file; do say set_id "$file"; done
fi
say end ok
