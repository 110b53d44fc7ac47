# 0: it is removed, not upgraded.
[ "$1" != 0 ] || [ ! -d /run/systemd/system ] || systemctl disable --now muster.service
