# Examines an image as the user that ModelArts starts, and prints lines of name<TAB>value.
# Uses POSIX sh and its built-ins as far as possible: slim images have little else.
home=/home/ma-user
say() { printf '%s\t%s\n' "$1" "$2"; }
found() { command -v "$1" >/dev/null 2>&1; }

# python PREFIX COMMAND...: `PREFIX<TAB>exit code<TAB>last line of its output`
answer() {
    prefix=$1
    shift
    text=$("$@" 2>&1)
    code=$?
    last=
    while IFS= read -r line; do [ -z "$line" ] || last=$line; done <<END
$text
END
    printf '%s\t%s\t%s' "$prefix" "$code" "$last"
}

version() { answer "$1" "$2" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])'; }

found id && say gid "$(id -g)"
if [ -r /etc/passwd ]; then
    while IFS= read -r line; do say passwd "$line"; done </etc/passwd
fi

if [ ! -d "$home" ]; then say home missing
elif ! cd "$home" 2>/dev/null; then say home closed
elif ! (: >"$home/.ma_boot-probe") 2>/dev/null; then say home read-only
else say home ok; fi

for program in sh bash; do
    if found "$program" || [ -x "/bin/$program" ]; then say program "$program"; fi
done

if [ -e /opt/ma_boot/bin/python ]; then
    say toolkit "$(answer /opt/ma_boot /opt/ma_boot/bin/python -I -m ma_boot --version)"
elif found ma_boot; then
    say toolkit "$(answer "$(command -v ma_boot)" ma_boot --version)"
fi

for root in ${ANACONDA_DIR:-$home/anaconda $home/anaconda3 $home/miniconda3 $home/miniforge3}; do
    for python in "$root/bin/python" "$root"/envs/*/bin/python; do
        [ ! -e "$python" ] && [ ! -L "$python" ] || say environment "$(version "${python%/bin/python}" "$python")"
    done
done
for python in python python3; do
    if found "$python"; then
        say path_python "$(version "$(command -v "$python")" "$python")"
        break
    fi
done

[ -z "$TZ" ] || [ -e "/usr/share/zoneinfo/${TZ#:}" ] || say zone missing
for directory in /usr/local/nvidia /usr/local/Ascend/driver; do
    for entry in "$directory"/*; do
        [ ! -e "$entry" ] || say driver "$entry"
    done
done
if found find; then
    find / -xdev -type f \( -name 'libcuda.so.[0-9]*' -o -name 'libnvidia-ml.so.[0-9]*' -o -name nvidia-smi \) \
        2>/dev/null | while IFS= read -r file; do say driver "$file"; done
    find / -xdev -type f \( -perm -4000 -o -perm -2000 \) 2>/dev/null |
        while IFS= read -r file; do say set_id "$file"; done
fi
