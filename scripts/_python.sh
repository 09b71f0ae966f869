# Sourced by the other scripts: sets $python to the first Python >= 3.11 on PATH, or explains and exits 1.
# shellcheck shell=sh
python=
for candidate in python3.11 python3.12 python3.13 python3.14 python3 python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' </dev/null 2>/dev/null; then
        python=$(command -v "$candidate")
        break
    fi
done
if [ -z "$python" ]; then
    found=$(python3 -c 'import platform; print(platform.python_version())' </dev/null 2>/dev/null || echo none)
    echo "GoClaw needs Python 3.11 or newer on PATH; python3 here is: $found." >&2
    echo "Debian 12, Ubuntu 24.04 and newer: apt-get install python3 python3-venv" >&2
    exit 1
fi
