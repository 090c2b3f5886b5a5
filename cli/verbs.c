/* verbs.c - the table of commands: nouns, verbs, what they take, and their help. */
#include "cli/cli.h"

const struct cli_verb cli_verbs[] = {
    {"pool", "create", "njfo", 2, CLI_WORDS_MAX,
	"[-nf] [-o logsize=SIZE] NAME SET... [log DRIVE...] [spare DRIVE...]",
	"SET is raidz1|raidz2|raidz3|mirror followed by drives, or single drives. Names may hold a "
	"range.\n"
	"  pool create tank raidz1 nvme[0-6]n1 log nvme7n1 nvme8n1 spare nvme9n1\n"
	"  -n shows the layout's capacity and writes nothing; -f takes drives that aren't empty.",
	verb_pool_create},
    {"pool", "destroy", "nfyj", 1, 1, "[-n] [--yes] NAME",
	"Ends the pool and forgets its data. -n says what would go.", verb_pool_destroy},
    {"pool", "list", "Hpj", 0, 1, "[-Hpj] [NAME]", "Pools in service, with their capacity.",
	verb_pool_list},
    {"pool", "status", "jp", 0, 1, "[-jp] [NAME]",
	"Health of pools, their sets and drives, and what to do.", verb_pool_status},
    {"pool", "export", "jf", 1, 1, "[-f] NAME",
	"Takes the pool out of service, cleanly, so that its drives can move. -f: also one that is suspended, as it is; it is taken up "
	"again when its drives are there.",
	verb_pool_export},
    {"pool", "import", "HjfRo", 0, 2,
	"[-fR] [-o missing_log=on] [-o rewind=N] [NAME|GUID [NEWNAME]]",
	"Without a name: pools found on drives that aren't in service. -R read-only; -f although "
	"another host used it last.",
	verb_pool_import},
    {"pool", "upgrade", "j", 1, 1, "NAME",
	"Lets the pool use what this firmware knows and an older one didn't: snapshots, quotas. "
	"Older firmware can then only read it.",
	verb_pool_upgrade},
    {"pool", "check", "j", 1, 1, "NAME",
	"Compares everything reachable with the space maps; changes nothing.", verb_pool_check},
    {"pool", "remove", "j", 2, 2, "NAME DRIVE", "Gives up a log drive or a spare. Data drives can only be replaced.",
	verb_pool_remove},
    {"pool", "add", "njfo", 2, CLI_WORDS_MAX, "[-nf] [-o logsize=SIZE] NAME SET... [log DRIVE...] [spare DRIVE...]",
	"More sets, log drives and spares for a pool in service. Data sets can't be removed again. -n shows what it would give; -f "
	"takes drives that aren't empty, and sets unlike those there are.\n"
	"  pool add tank raidz1 nvme[10-16]n1",
	verb_pool_add},
    {"pool", "scrub", "jprs", 1, 1, "[-p|-r|-s] NAME",
	"Verifies every block on every drive and repairs what is wrong. -p pauses it, -r lets it "
	"go on, -s stops it.",
	verb_pool_scrub},
    {"pool", "trim", "jscN:", 1, 2, "[-sc] [--rate BYTES] NAME [DRIVE]",
	"Tells the drives, or one, which of their space is free, so that they keep their pace: slowly, and only what no older state of "
	"the pool needs any more. --rate limits it, in bytes a second of each drive; -s pauses it, -c ends it; again without these: it "
	"goes on. The property autotrim does it by itself for what is freed.\n"
	"  pool trim --rate 100M tank",
	verb_pool_trim},
    {"pool", "offline", "jt", 2, 2, "[-t] NAME DRIVE",
	"Takes a drive out of use; the pool remembers what it misses. -t: only until the next "
	"import.",
	verb_pool_offline},
    {"pool", "online", "je", 2, 2, "[-e] NAME DRIVE",
	"Takes a drive back that was offline or faulted; it is brought up to date. -e: its set grows, when all its drives are larger than "
	"what it uses of them.",
	verb_pool_online},
    {"pool", "replace", "jf", 2, 3, "[-f] NAME DRIVE [NEWDRIVE]",
	"Another drive takes the place of one, there or gone, and is filled; one that is there stays in use until then. Without "
	"NEWDRIVE: the one that is where DRIVE was.\n"
	"  pool replace tank nvme3n1 nvme9n1",
	verb_pool_replace},
    {"pool", "attach", "jf", 3, 3, "[-f] NAME DRIVE NEWDRIVE",
	"NEWDRIVE mirrors DRIVE, which is a single drive, a side of a mirror or of the log; it is filled.\n"
	"  pool attach tank nvme3n1 nvme9n1",
	verb_pool_attach},
    {"pool", "detach", "j", 2, 2, "NAME DRIVE",
	"A mirror gives up a drive, when another one that is there has everything; a replacement is called off when DRIVE is the new one.",
	verb_pool_detach},
    {"pool", "clear", "j", 1, 2, "NAME [DRIVE]",
	"Forgets the errors of a drive, or of all; takes back what was faulted by them.",
	verb_pool_clear},
    {"pool", "spare add", "jf", 2, 2, "[-f] NAME DRIVE",
	"A spare more, which several pools may share.", verb_pool_spare_add},
    {"pool", "spare remove", "j", 2, 2, "NAME DRIVE", "The pool gives up a spare that waits.",
	verb_pool_spare_remove},
    {"pool", "get", "Hj", 2, 2, "[-Hj] all|PROPERTY NAME", "undoused is the space that comes back when all that was destroyed is gone for good.\n  pool get all tank",
	verb_pool_get},
    {"pool", "set", "j", 2, 2, "PROPERTY=VALUE NAME",
	"  pool set autoreplace=on tank\n  Properties: autoreplace=off|on, autoexpand=off|on, failmode=wait|continue, undo=24h|off|1h|7d|30d, "
	"scrub=monthly|weekly|off; when a drive is ill: io_errors, checksum_errors, slow_ios=COUNT/SECONDS|off, slow_io_ms=MS, "
	"sitout=10min|1min|1h|off; autotrim=off|on, autotrim_rate=64M|16M|256M|1G|off. Without a value: the default again.",
	verb_pool_set},
    {"pool", "history", "Hpj", 0, 1, "[-Hpj] [NAME]", "What was done to pools, when, by whom.",
	verb_pool_history},
    {"pool", "events", "Hpj", 0, 1, "[-Hpj] [NAME]",
	"What happened to pools: drives that went and came, scrubs, suspensions.",
	verb_pool_events},
    {"fs", "create", "oj", 1, 1, "[-o PROPERTY=VALUE] PATH",
	"  fs create -o compression=zstd tank/home", verb_fs_create},
    {"fs", "destroy", "nrfyjv", 1, 1, "[-nrv] [--yes] PATH|PATH@SNAPSHOT[%SNAPSHOT][,...]",
	"Destroys the filesystem (-r: and its snapshots, and all below it), or snapshots: A%B is all from A to B, -r: also those of the "
	"filesystems below. -n says what "
	"would go, and what would come back; -v names the snapshots that go.\n"
	"  fs destroy -n tank/home@monday%friday",
	verb_fs_destroy},
    {"fs", "list", "Hpjrt:o:s:S:", 0, 1, "[-Hpjr] [-t TYPE] [-o COLUMN,...] [-s|-S COLUMN] [PATH]",
	"Filesystems and snapshots, and the space they take. TYPE is filesystem, snapshot, destroyed or all; "
	"-r: also what is below PATH; -s "
	"sorts by a column, -S the other way round.\n"
	"  fs list -t snapshot -o name,used,creation -S used tank/home\n"
	"  Columns: name, type, used, avail, refer, share, creation, origin, logical, written, "
	"usedbydataset, usedbysnapshots, "
	"usedbychildren, snapshots, holds, clones, destroyed, until, path, guid.",
	verb_fs_list},
    {"fs", "undestroy", "nrj", 1, 2, "[-nr] PATH [NEWPATH]|PATH@SNAPSHOT[%SNAPSHOT][,...] [NEWNAME]",
	"Brings a destroyed filesystem or snapshots back, within the time that the pool's property undo says; A%B is all "
	"destroyed ones from A to B. -n says what would be "
	"back; -r: also the snapshots of these names of the filesystems below.",
	verb_fs_undestroy},
    {"fs", "rename", "j", 2, 2, "PATH NEWPATH|PATH@SNAPSHOT NEWNAME",
	"Renames a filesystem or a snapshot.", verb_fs_rename},
    {"fs", "snapshot", "rj", 1, 1, "[-r] PATH@SNAPSHOT",
	"Keeps the filesystem as it is now; -r: and all below it, at one moment. Clients find it "
	"in .snapshot of every directory.\n"
	"  fs snapshot -r tank/home@monday",
	verb_fs_snapshot},
    {"fs", "diff", "Hj", 1, 2, "[-Hj] PATH@SNAPSHOT [PATH@SNAPSHOT|PATH]",
	"What happened since the snapshot, or between two of them, or of a clone since its origin: + "
	"came, - went, M was changed (+1: has a link more), R has another name. -H: change, type, path, old path, links. "
	"A backslash and three octal digits are a byte that can't be printed.\n"
	"  fs diff tank/home@monday tank/home@friday",
	verb_fs_diff},
    {"fs", "hold", "j", 2, 2, "TAG PATH@SNAPSHOT",
	"Nobody can destroy the snapshot until the tag is released.", verb_fs_hold},
    {"fs", "release", "j", 2, 2, "TAG PATH@SNAPSHOT", "Takes a hold away.", verb_fs_release},
    {"fs", "holds", "Hpj", 1, 1, "[-Hpj] PATH@SNAPSHOT", "Who holds the snapshot.", verb_fs_holds},
    {"fs", "rollback", "nrfyjk:", 1, 1, "[-nr] [--keep-as PATH] [--yes] PATH@SNAPSHOT",
	"Makes the filesystem what it was in its newest snapshot, while clients use it. -r "
	"destroys newer snapshots first. "
	"--keep-as keeps what would be discarded as a filesystem of its own.\n"
	"  fs rollback --keep-as tank/spoiled tank/home@monday",
	verb_fs_rollback},
    {"fs", "clone", "oj", 2, 2, "[-o PROPERTY=VALUE] PATH@SNAPSHOT NEWPATH",
	"A new filesystem that begins as what is in the snapshot, and shares its space.",
	verb_fs_clone},
    {"fs", "promote", "j", 1, 1, "PATH",
	"The clone takes over the snapshots it came from; the other filesystem becomes the clone, "
	"and can be destroyed.",
	verb_fs_promote},
    {"fs", "userspace", "Hpjno:s:S:", 1, 1, "[-Hpjn] [-o COLUMN,...] [-s|-S COLUMN] PATH|PATH@SNAPSHOT",
	"What each user has there: bytes as du tells them, and files, directories and so on; and his "
	"quotas. -n: numbers instead of names; -s sorts by a column, -S the other way round.\n"
	"  fs userspace -o name,used,quota -S used tank/home\n"
	"  Columns: type, name, used, quota, objused, objquota.",
	verb_fs_space},
    {"fs", "groupspace", "Hpjno:s:S:", 1, 1, "[-Hpjn] [-o COLUMN,...] [-s|-S COLUMN] PATH|PATH@SNAPSHOT",
	"The same of groups.", verb_fs_space},
    {"fs", "get", "Hpjrt:", 2, 2, "[-Hpjr] [-t TYPE] all|PROPERTY[,PROPERTY] PATH|PATH@SNAPSHOT",
	"-t snapshot shows the filesystem's snapshots instead, -t all both.\n  fs get compression,recordsize tank/home\n"
	"  fs get -r -t snapshot used,clones tank/home", verb_fs_get},
    {"fs", "set", "j", 2, 2, "PROPERTY=VALUE PATH",
	"  fs set compression=zstd-3 tank/home\n  fs set compression= tank/home   (inherits again)\n"
	"  fs set userquota@ann=10G tank/home\n  fs set defaultuserquota=1G tank/home",
	verb_fs_set},
    {"schedule", "create", "rjo", 2, 2, "[-r] [-o keep=N] TIME PATH",
	"Takes a snapshot of the filesystem (-r: and of all below it) whenever TIME begins, and "
	"keeps the newest N of these. TIME is "
	"15min, hourly, daily, weekly or monthly. Snapshots are named auto-TIME-DATE_TIME, in UTC; "
	"others are never destroyed.\n"
	"  schedule create -r -o keep=48 hourly tank/home",
	verb_schedule_create},
    {"schedule", "list", "Hpj", 0, 0, "[-Hpj]", "Schedules, and when they are due.",
	verb_schedule_list},
    {"schedule", "remove", "j", 2, 2, "TIME PATH", "Ends the schedule. Its snapshots stay.",
	verb_schedule_change},
    {"schedule", "pause", "j", 0, 2, "[TIME PATH]",
	"Takes and destroys nothing until it is resumed. Without words: all schedules.",
	verb_schedule_change},
    {"schedule", "resume", "j", 0, 2, "[TIME PATH]",
	"Goes on, with a snapshot at once when one is due.", verb_schedule_change},
    {"share", "create", "oj", 1, 1, "[-o rw=CLIENTS] [-o ro=CLIENTS] [-o squash=...] /PATH",
	"Serves a filesystem (made if it isn't there) or a directory of one over NFS.\n"
	"  share create -o rw=10.0.0.0/24 -o ro=10.0.1.5,fd00::/64 /tank/home\n"
	"  Properties: rw, ro, squash=root_squash|no_root_squash|all_squash, anonuid, anongid, "
	"insecure=on|off.",
	verb_share_create},
    {"share", "set", "oj", 1, 1, "-o PROPERTY=VALUE /PATH",
	"Changes a share; clients notice with their next call.", verb_share_set},
    {"share", "remove", "j", 1, 1, "/PATH", "Stops serving it. The data stays.", verb_share_remove},
    {"share", "list", "Hj", 0, 0, "[-Hj]", "Shares and who may use them.", verb_share_list},
    {"disk", "list", "Hpj", 0, 0, "[-Hpj]", "Drives of this machine and what they are used for.",
	verb_disk_list},
    {"disk", "bind", "jf", 1, 1, "[-jf] DRIVE",
	"Drive an NVMe drive ourselves instead of by the kernel (VFIO). It moves with its whole "
	"controller.\n"
	"Example: disk bind nvme3n1",
	verb_disk_bind},
    {"disk", "unbind", "j", 1, 1, "[-j] DRIVE", "Give an NVMe drive back to the kernel's driver.",
	verb_disk_unbind},
    {"disk", "health", "Hpj", 0, 0, "[-Hpj]",
	"Temperature, wear and errors of the NVMe drives that we drive ourselves.",
	verb_disk_health},
    {"disk", "inject", "nfyjHple:S:Cm:w:GN:c:g:x:", 0, 1,
	"[-nfj] [--yes] [--error read|write|flush|all [--status io|medium|timeout|gone]] [--corrupt] [--slow MS] [--hang SECONDS] "
	"[--gone] [--rate 1/N] [--count N] [--range OFFSET+LENGTH] DRIVE|-l|--clear DRIVE|all",
	"Makes a drive that works fail on purpose, to try a pool and a site's alerts: I/O errors, reads with a flipped bit (nothing is "
	"written wrong), slow answers, none for a while, or as if pulled out. What a set can't spare needs -f. -l lists, --clear ends; a "
	"restart ends it too. 'pool status' and 'disk list' show it.\n"
	"  disk inject --error read --rate 1/100 --count 20 nvme3n1\n"
	"  disk inject --clear all",
	verb_disk_inject},
    {"system", "status", "Hpj", 0, 0, "[-Hpj]", "The daemon: ports, memory, calls.",
	verb_system_status},
    {NULL, NULL, NULL, 0, 0, NULL, NULL, NULL},
};
