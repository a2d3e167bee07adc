# shellcheck shell=sh
# Looks, as root, for files of an image that hold credentials, and prints lines of credential<TAB>what<TAB>file, `end`
# last; and text<TAB>file<TAB>text for what may be one. Well-known names are those of the tools that write them; texts are
# looked for in small text files, but not where distributions and packages keep theirs (documents, tests, certificates).
# Its arguments are directories: of the layers, in which a file stays that a later layer removes, or / alone.

# say WHAT FILE, where FILE is below the current directory, a layer
say() {
    name=${2#.}
    [ -e "$name" ] || [ -L "$name" ] || name="$name (removed later, but still in its layer)"
    printf 'credential\t%s\t%s\n' "$1" "$name"
}
key='-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY'
login='://[^/@:[:space:]]*:[^/@[:space:]]+@'
# What may be a credential in a text, which the reader of this output judges: a key, a token, or a name and a value.
letters='[0-9A-Za-z_.-]*'
name="($letters(secret|token|passw|pwd|credential|key)$letters|(${letters}[_.-]|^|[^0-9A-Za-z_])(pass|[as]k))"
value="(\"[^\"]{6,200}|'[^']{6,200}|[^[:space:]\"',;]{6,200})"
tokens='(AKIA|ASIA|gh[opsur]_|github_pat_|glpat-|hf_|npm_|pypi-|xox[abprs]-|AIza|sk-)[0-9A-Za-z_-]{16,255}'
text="$key|$tokens|${name}[\"'\]*[[:space:]]*(:=|=>|[=:])[[:space:]]*${value}[\"']?"

# has PATTERN FILE: whether a line outside of comments has it; letters of names in any case
has() { grep -v '^[[:space:]]*[#;]' "$2" 2>/dev/null | grep -qaiE -- "$1"; }

PATH=${PATH:-/usr/bin}:/usr/bin:/bin # whatever the image's own is
command -v find >/dev/null 2>&1 && command -v grep >/dev/null 2>&1 || exit 3

well_known() {
    find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev \) -prune -o -type f -size -2048k \( \
        -name .netrc -o -name _netrc -o -name .git-credentials -o -name .pgpass -o -name .my.cnf -o -name .htpasswd \
        -o -name .passwd-s3fs -o -name .pypirc -o -name .npmrc -o -name .dockercfg -o -path '*/.docker/config.json' \
        -o -path '*/.kube/config' -o -path '*/.git/config' \
        -o -path '*/.azure/*.json' -o -path '*/gcloud/*credentials*' -o -path '*/gh/hosts.yml' \
        -o -path '*/.huggingface/token' -o -path '*/huggingface/token' -o -name 'credentials*.csv' -o -name accessKeys.csv \
        -o -name pip.conf -o -name 'id_rsa*' -o -name 'id_dsa*' -o -name 'id_ecdsa*' \
        -o -name 'id_ed25519*' -o -name '*.pem' -o -name '*.key' -o -name '*.ppk' -o -name '*.p12' -o -name '*.pfx' \
        -o -name '*.kdbx' \) -print 2>/dev/null | while IFS= read -r file; do
        case $file in
            */site-packages/* | */dist-packages/* | */pkgs/* | ./usr/share/* | ./etc/ssh/* | */ssl-cert-snakeoil.key | \
                */test/* | */tests/* | */testdata/*) continue ;;
            */.git/config | */pip.conf) has "$login" "$file" && say 'a URL with a login' "$file" ;;
            */.netrc | */_netrc) has 'password[[:space:]]+[^[:space:]]' "$file" && say 'a password' "$file" ;;
            */.git-credentials) has "$login" "$file" && say 'a URL with a login' "$file" ;;
            */.pgpass | */.htpasswd | */.passwd-s3fs) has ':' "$file" && say 'a password' "$file" ;;
            */.my.cnf | */.pypirc) has 'password' "$file" && say 'a password' "$file" ;;
            */.npmrc) has '_auth|_password' "$file" && say 'a token' "$file" ;;
            */.docker/config.json | */.dockercfg) has '"(auth|identitytoken|registrytoken)"' "$file" &&
                say 'the login of a registry' "$file" ;;
            */.kube/config) has 'token:|client-key-data:|password:' "$file" && say 'the key of a cluster' "$file" ;;
            */.azure/* | */gcloud/* | */gh/hosts.yml) has 'token|secret|private_key' "$file" && say 'a token' "$file" ;;
            */huggingface/token | */.huggingface/token) has '[^[:space:]]' "$file" && say 'a token' "$file" ;;
            */credentials*.csv | */accessKeys.csv) has 'access.?key' "$file" && say 'access keys' "$file" ;;
            *.ppk | *.p12 | *.pfx | *.kdbx) say 'a store of keys' "$file" ;;
            *) has "$key" "$file" && say 'a private key' "$file" ;;
        esac
    done
}

# Texts of other small files: what this image adds is in /etc, /usr/src, the home, /root, /opt, /srv, /data and the like.
texts() {
    find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path './usr/[!s]*' -o -path './usr/s[!r]*' \
        -o -path './usr/src/linux*' -o -path ./etc/ssl -o -path ./etc/ssh -o -path './var/[!w]*' -o -path './lib*' -o -path ./bin \
        -o -path ./sbin -o -path ./boot -o -path ./opt/ma_boot -o -name site-packages -o -name dist-packages -o -name pkgs \
        -o -name node_modules -o -name test -o -name tests -o -name testdata -o -path '*/lib/python3*' -o -path '*/share/*' \) \
        -prune -o -type f -size -256k -size +0 -exec grep -m 100 -IHoiE -e "$text" {} + 2>/dev/null |
        while IFS= read -r line; do
            place=${line%%:*}
            place=${place#.}
            [ -e "$place" ] || [ -L "$place" ] || place="$place (removed later, but still in its layer)"
            printf 'text\t%s\t%s\n' "$place" "${line#*:}"
        done
}

for layer; do
    cd "$layer" 2>/dev/null || continue
    well_known
    texts
done
printf 'end\tok\n'
