# Makes the tree $1, a fresh Debian, a guest of package vm: it boots from /dev/vda, mounts nothing else, brings eth0 up by
# DHCP, and runs what the host sends to the agent.
cd "$1"
echo guest >etc/hostname
echo '/dev/vda / ext4 defaults 0 1' >etc/fstab
: >etc/resolv.conf
: >etc/machine-id
rm -f etc/network/interfaces etc/NetworkManager/dispatcher.d/01-ifupdown

# Nothing that runs by the clock, and no second nameserver or firewall until a test starts one.
for unit in apt-daily.timer apt-daily-upgrade.timer man-db.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
	dpkg-db-backup.timer dnsmasq.service getty@tty1.service serial-getty@ttyS0.service \
	systemd-timesyncd.service systemd-networkd-wait-online.service NetworkManager-wait-online.service; do
	ln -sf /dev/null "etc/systemd/system/$unit"
done
rm -f etc/systemd/system/*.wants/firewalld.service etc/systemd/system/dbus-org.fedoraproject.FirewallD1.service
# Without auditd the journal has the audit records. A test may start it. Debian 13 leaves journald's socket for them off, which
# systemd's own preset has on.
rm -f etc/systemd/system/*.wants/auditd.service
for dir in systemd-journald.service.wants sockets.target.wants; do
	mkdir -p "etc/systemd/system/$dir"
	ln -sf /usr/lib/systemd/system/systemd-journald-audit.socket "etc/systemd/system/$dir/"
done
mkdir -p var/log/journal

cat >etc/NetworkManager/system-connections/eth0.nmconnection <<'END'
[connection]
id=eth0
type=ethernet
interface-name=eth0

[ipv4]
method=auto

[ipv6]
method=auto
END
chmod 600 etc/NetworkManager/system-connections/eth0.nmconnection
printf '[main]\nplugins=keyfile\nno-auto-default=*\n' >etc/NetworkManager/NetworkManager.conf

# The agent runs each line of its port, a base64-encoded script, and answers with a line: exit status, base64-encoded output.
mkdir -p usr/local/lib/vm
cat >usr/local/lib/vm/agent <<'END'
#!/bin/bash
exec 3<>/dev/virtio-ports/agent
echo ready >&3
while IFS= read -r line <&3; do
	bash -c "$(base64 -d <<<"$line")" >/run/vm-agent.out 2>&1 </dev/null 3>&-
	printf '%s %s\n' "$?" "$(base64 -w0 /run/vm-agent.out)" >&3
done
END
chmod 755 usr/local/lib/vm/agent
cat >etc/systemd/system/vm-agent.service <<'END'
[Unit]
Description=Runs what the test sends
After=NetworkManager.service dbus.service

[Service]
# An administrator's shell.
SELinuxContext=-unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023
ExecStart=/bin/bash /usr/local/lib/vm/agent
WorkingDirectory=/root
Environment=HOME=/root LANG=C.UTF-8
KillMode=process
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
END
ln -sf ../vm-agent.service etc/systemd/system/multi-user.target.wants/vm-agent.service

# rpm of Debian keeps its database in root's home directory.
mkdir -p etc/rpm
echo '%_dbpath /var/lib/rpm' >etc/rpm/macros

# An initial RAM disk of what the emulator has: unpacking the usual one takes 20 s.
printf 'MODULES=list\nCOMPRESS=gzip\n' >etc/initramfs-tools/conf.d/vm
printf 'virtio_pci\nvirtio_blk\next4\n' >>etc/initramfs-tools/modules
rm boot/initrd.img-*
chroot . sh -c 'update-initramfs -c -k $(ls /lib/modules) >/dev/null 2>&1'
