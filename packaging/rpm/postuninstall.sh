[ ! -d /run/systemd/system ] || systemctl daemon-reload
[ "$1" = 0 ] || [ ! -d /run/systemd/system ] || systemctl try-restart muster.service
