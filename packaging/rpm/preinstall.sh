getent passwd muster >/dev/null || useradd --system --home-dir /var/lib/muster --shell /sbin/nologin muster
