# SPDX-License-Identifier: Apache-2.0
# Sourced: apt_install PACKAGE..., quiet; fails when there is no apt or no right to use it.

apt_lists=

apt_install() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=sudo
    else
        return 1
    fi
    echo "installing $* (apt)" >&2
    [ -n "$apt_lists" ] || $as_root apt-get update -qq >/dev/null 2>&1 || true
    apt_lists=fresh
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null 2>&1
}
