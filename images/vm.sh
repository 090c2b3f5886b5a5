# vm.sh - a virtual appliance for tests and for images/boot; to be sourced by bash.
#
# VM_DIR holds everything of one VM: the boot drive, ten data drives (serials d0..d6, l0, l1, s0), sockets, serial.log.
# With VM_CACHE=nbdkit each drive is served by nbdkit with a cache that keeps what the guest hasn't flushed: vm_power_cut
# ends those processes, and unflushed writes are lost, as in a drive without power-loss protection. That is for VM_BUS=scsi:
# the NVMe controller of QEMU 7.2 ignores FUA, takes a write that must be durable for one that needn't, and loses it there.
# One VM a VM_DIR; the functions return non-zero when what was waited for didn't come, and say what was seen last.
#
# Settings, before vm_start: VM_IMAGE, VM_FIRMWARE (bios|uefi), VM_DRIVE_SIZE, VM_MEMORY, VM_NFS_PORT, VM_MOUNT_PORT,
# VM_BUS (nvme|scsi), VM_CACHE (nbdkit|none: plain files), VM_LIARS (drives whose nbdkit ignores flushes),
# VM_ACCEL (auto|tcg|kvm), VM_SERIAL (socket|stdio), VM_IOMMU (off|on), VM_DEBUG (more kernel parameters: a start without
# GRUB, for developers).

VM_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
: "${VM_BUILD:=${AGATE_BUILD:-$VM_TOP/build}}"
: "${VM_IMAGE:=$VM_BUILD/image/agate.img}"
: "${VM_DIR:=$VM_BUILD/vm}"
: "${VM_FIRMWARE:=bios}"
: "${VM_DRIVE_SIZE:=1G}"
: "${VM_MEMORY:=1536}"
: "${VM_NFS_PORT:=20490}"
: "${VM_MOUNT_PORT:=20491}"
: "${VM_CACHE:=none}"
: "${VM_BUS:=nvme}"
: "${VM_LIARS:=}"
: "${VM_ACCEL:=auto}"
: "${VM_SERIAL:=socket}"
: "${VM_IOMMU:=off}"
VM_DRIVES=(d0 d1 d2 d3 d4 d5 d6 l0 l1 s0)
VM_PROMPT='agate> '
VM_OVMF=/usr/share/OVMF

# One sentence of why, then false.
vm_fail() {
	echo "vm: $*" >&2
	return 1
}

# Fresh drives and a fresh boot drive.
vm_make_drives() {
	local d
	mkdir -p "$VM_DIR"
	rm -f "$VM_DIR"/*.raw "$VM_DIR/boot.img" "$VM_DIR/vars.fd" "$VM_DIR/serial.log"
	for d in "${VM_DRIVES[@]}"; do
		truncate -s "$VM_DRIVE_SIZE" "$VM_DIR/$d.raw"
	done
	cp --sparse=always "$VM_IMAGE" "$VM_DIR/boot.img"
	[ "$VM_FIRMWARE" = bios ] || cp "$VM_OVMF/OVMF_VARS_4M.fd" "$VM_DIR/vars.fd"
}

# A newer image onto the boot drive; the machine's settings, which its pools know it by, stay.
vm_renew_boot() {
	local first size
	[ "$VM_IMAGE" -nt "$VM_DIR/boot.img" ] || return 0
	read -r first size < <(sgdisk -i 4 "$VM_IMAGE" | awk '/^First sector/ { first = $3 } /^Partition size/ { print first, $3 }')
	cp --sparse=always "$VM_IMAGE" "$VM_DIR/boot.img.new" &&
		dd if="$VM_DIR/boot.img" of="$VM_DIR/boot.img.new" bs=512 skip="$first" seek="$first" count="$size" conv=notrunc status=none &&
		mv "$VM_DIR/boot.img.new" "$VM_DIR/boot.img"
}

# Whether this machine's KVM runs our kernel: found out by running it, once. Prints kvm or tcg.
vm_accelerator() {
	local verdict=$VM_BUILD/image/accelerator
	if [ "$VM_ACCEL" != auto ]; then
		echo "$VM_ACCEL"
		return
	fi
	if [ ! -s "$verdict" ]; then
		echo tcg >"$verdict"
		if [ -w /dev/kvm ] && timeout 8 qemu-system-x86_64 -accel kvm -machine q35 -cpu host -m 256 -display none -no-reboot \
			-kernel "$VM_BUILD/image/kernel/vmlinuz" -initrd "$VM_BUILD/image/kernel/initramfs" \
			-append "console=ttyS0 quiet panic=-1 agate.probe" -serial stdio -monitor none </dev/null 2>/dev/null |
			grep -aq agate-probe-alive; then
			echo kvm >"$verdict"
		fi
	fi
	cat "$verdict"
}

# Ports of this machine that nobody listens on, for tests that run beside others.
vm_free_ports() {
	local port free=()
	for _ in {1..100}; do
		port=$((SRANDOM % 20000 + 12000))
		! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue
		free+=($port)
		[ ${#free[@]} -lt 2 ] || break
	done
	[ ${#free[@]} -eq 2 ] || vm_fail "no free ports" || return 1
	VM_NFS_PORT=${free[0]} VM_MOUNT_PORT=${free[1]}
}

vm_start_nbdkit() {
	local d cache
	VM_NBD_PIDS=()
	for d in "${VM_DRIVES[@]}"; do
		rm -f "$VM_DIR/$d.sock"
		cache=writeback
		[[ " $VM_LIARS " != *" $d "* ]] || cache=unsafe
		nbdkit -f --filter=cache -U "$VM_DIR/$d.sock" file "$VM_DIR/$d.raw" cache=$cache >>"$VM_DIR/nbdkit.log" 2>&1 &
		VM_NBD_PIDS+=($!)
	done
	for d in "${VM_DRIVES[@]}"; do
		vm_wait_until 10 test -S "$VM_DIR/$d.sock" || vm_fail "nbdkit doesn't serve $d" || return 1
	done
}

# vm_wait_until SECONDS COMMAND...
vm_wait_until() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt "$end" ] || return 1
		sleep 0.1
	done
}

# Puts QEMU's arguments into VM_ARGS. The watchdog does nothing: on a loaded machine the guest may stand still for a minute.
vm_arguments() {
	local accel d source machine=q35 n=0
	[ "$VM_IOMMU" = off ] || machine+=,kernel-irqchip=split
	accel=$(vm_accelerator)
	VM_ARGS=(-name agate -nodefaults -machine "$machine" -smp 2 -m "$VM_MEMORY" -display none -vga none -no-reboot
		-device virtio-rng-pci -device i6300esb -action watchdog=none
		-drive "if=none,id=boot,format=raw,file=$VM_DIR/boot.img" -device virtio-blk-pci,drive=boot,serial=boot,bootindex=1
		-netdev "user,id=net,hostfwd=tcp:127.0.0.1:$VM_NFS_PORT-:2049,hostfwd=tcp:127.0.0.1:$VM_MOUNT_PORT-:20048"
		-device virtio-net-pci,netdev=net,romfile=)
	if [ "$accel" = kvm ]; then
		VM_ARGS+=(-accel kvm -cpu host)
	else
		VM_ARGS+=(-accel tcg,thread=multi -cpu max)
	fi
	[ "$VM_IOMMU" = off ] || VM_ARGS+=(-device "intel-iommu,intremap=on,caching-mode=on")
	if [ "$VM_FIRMWARE" = uefi ]; then
		VM_ARGS+=(-drive "if=pflash,format=raw,readonly=on,file=$VM_OVMF/OVMF_CODE_4M.fd"
			-drive "if=pflash,format=raw,file=$VM_DIR/vars.fd")
	fi
	[ "$VM_BUS" = nvme ] || VM_ARGS+=(-device virtio-scsi-pci,id=scsi)
	for d in "${VM_DRIVES[@]}"; do
		source="format=raw,file=$VM_DIR/$d.raw,discard=unmap"
		[ "$VM_CACHE" = none ] || source="format=raw,file=nbd+unix:///?socket=$VM_DIR/$d.sock"
		VM_ARGS+=(-drive "if=none,id=$d,$source")
		if [ "$VM_BUS" = nvme ]; then
			VM_ARGS+=(-device "pcie-root-port,id=port$n,chassis=$n,slot=$n,io-reserve=0"
				-device "nvme,drive=$d,serial=$d,bus=port$n")
		else
			VM_ARGS+=(-device "scsi-hd,bus=scsi.0,scsi-id=$n,drive=$d,serial=$d,dpofua=off")
		fi
		n=$((n + 1))
	done
	[ -z "${VM_DEBUG:-}" ] || vm_debug_arguments
	if [ "$VM_SERIAL" = stdio ]; then
		VM_ARGS+=(-serial mon:stdio)
	else
		VM_ARGS+=(-monitor none -chardev "socket,id=serial,path=$VM_DIR/serial.sock,server=on,wait=off"
			-serial chardev:serial -qmp "unix:$VM_DIR/qmp.sock,server=on,wait=off")
	fi
}

# Past the boot loader, with other kernel parameters: for developers.
vm_debug_arguments() {
	VM_ARGS+=(-kernel "$VM_BUILD/image/kernel/vmlinuz" -initrd "$VM_BUILD/image/kernel/initramfs"
		-append "console=ttyS0,115200 agate.slot=a scsi_mod.scan=sync systemd.gpt_auto=0 no_timer_check $VM_DEBUG")
}

# Power on, with the drives as they are.
vm_start() {
	[ "$VM_CACHE" = none ] || vm_start_nbdkit || return 1
	vm_arguments
	rm -f "$VM_DIR/serial.sock" "$VM_DIR/qmp.sock"
	touch "$VM_DIR/serial.log"
	VM_MARK=$(stat -c %s "$VM_DIR/serial.log")
	qemu-system-x86_64 "${VM_ARGS[@]}" </dev/null 2>"$VM_DIR/qemu.log" &
	VM_PID=$!
	vm_wait_until 10 test -S "$VM_DIR/serial.sock" || vm_fail "QEMU didn't start: $(tail -n 1 "$VM_DIR/qemu.log")" || return 1
	# One connection for all that is typed (QEMU drops what is under way when its peer goes). It keeps the log, too: QEMU's
	# own repeats a character when its peer is slow.
	exec {VM_TYPE}> >(exec socat - "UNIX-CONNECT:$VM_DIR/serial.sock" >>"$VM_DIR/serial.log" 2>/dev/null)
}

# The console, readable.
vm_plain() {
	tr -d '\r\0' | sed 's/\x1b\[[0-9;?]*[A-Za-z]//g; s/\x1b[()=>78].\?//g'
}

vm_log() {
	vm_plain <"$VM_DIR/serial.log"
}

# What came on the console since the last vm_send or vm_start, readable.
vm_output() {
	tail -c "+$((VM_MARK + 1))" "$VM_DIR/serial.log" | vm_plain
}

# Is it in the input? All of that is read, as grep -q would not: who writes it must not die of a closed pipe.
vm_says() {
	[ "$(grep -cE -- "$1")" -gt 0 ]
}

vm_seen() {
	vm_output | vm_says "$1"
}

vm_alive() {
	kill -0 "$VM_PID" 2>/dev/null
}

vm_seen_or_dead() {
	vm_seen "$1" || ! vm_alive
}

# vm_wait_for PATTERN [SECONDS]: until the console shows it.
vm_wait_for() {
	vm_wait_until "${2:-60}" vm_seen_or_dead "$1"
	vm_seen "$1" && return 0
	vm_output | tail -n 15 >&2
	vm_alive || vm_fail "the VM has ended while '$1' was waited for: $(tail -n 1 "$VM_DIR/qemu.log")" || return 1
	vm_fail "'$1' didn't come within ${2:-60} s; the last lines are above"
}

# vm_send LINE: as if typed, with Enter.
vm_send() {
	VM_MARK=$(stat -c %s "$VM_DIR/serial.log")
	printf '%s\r' "$1" >&"$VM_TYPE"
}

vm_at_prompt() {
	vm_output | tail -n +2 | vm_says "^$VM_PROMPT" || ! vm_alive
}

# vm_run LINE [SECONDS]: a command of the shell; prints what it printed, without the echo.
vm_run() {
	vm_send "$1"
	vm_wait_until "${2:-60}" vm_at_prompt || vm_fail "'$1' hasn't ended after ${2:-60} s" || return 1
	vm_alive || vm_fail "the VM has ended during '$1'" || return 1
	vm_output | tail -n +2 | sed "/^$VM_PROMPT/,\$d"
}

vm_hang_up() {
	[ -z "${VM_TYPE:-}" ] || exec {VM_TYPE}>&-
	VM_TYPE=
}

vm_serves() {
	vm_run "system status" 60 | vm_says '^ports'
}

# vm_wait_for_service SECONDS: until agated answers, its pools imported.
vm_wait_for_service() {
	vm_wait_until "$1" vm_serves
}

# All at once: unflushed writes are lost.
vm_power_cut() {
	vm_hang_up
	kill -9 "${VM_NBD_PIDS[@]}" "$VM_PID" 2>/dev/null
	wait "${VM_NBD_PIDS[@]}" "$VM_PID" 2>/dev/null
	VM_NBD_PIDS=() VM_PID=
}

# The power button; after 60 s the plug.
vm_stop() {
	[ -n "${VM_PID:-}" ] || return 0
	printf '{"execute":"qmp_capabilities"}{"execute":"system_powerdown"}' |
		socat -t 2 - "UNIX-CONNECT:$VM_DIR/qmp.sock" >/dev/null 2>&1
	vm_wait_until "${1:-60}" vm_ended || vm_fail "the VM didn't power off"
	local status=$?
	vm_end
	return $status
}

vm_ended() {
	! vm_alive
}

# For exit traps: nothing of ours is left running.
vm_end() {
	vm_hang_up
	[ -z "${VM_PID:-}" ] || kill -9 "$VM_PID" 2>/dev/null
	[ ${#VM_NBD_PIDS[@]} -eq 0 ] || kill -9 "${VM_NBD_PIDS[@]}" 2>/dev/null
	wait ${VM_PID:-} "${VM_NBD_PIDS[@]}" 2>/dev/null
	VM_NBD_PIDS=() VM_PID=
	return 0
}
VM_NBD_PIDS=()
