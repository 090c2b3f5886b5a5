/*
 * extract.c - files out of a dataset into a directory of this machine.
 *
 * The names come from drives that may be damaged or forged: every file is opened relative to its
 * own directory, component by component, never following a symbolic link, and never replacing what
 * is there. Owners and device nodes are made by root only; set-id bits are kept only together with
 * the owner. Holes stay holes. A file with several names is extracted once and linked. Directories
 * get their modes and times last.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include "dump/dump.h"

#define BUCKETS 4096u
#define LINK_MAX 4095u

struct made {
	struct made *next;
	uint64_t object;
	struct dump_inode inode;
	char path[];
};

struct extract {
	struct dump_fs *fs;
	int root_fd;
	bool is_root;
	struct made *linked[BUCKETS]; /* files with more than one name */
	struct made *dirs;            /* newest first: children before parents */
};

/* The directory that holds path's last component; *out_name is that. */
static int
parent_open(const struct extract *x, const char *path, const char **out_name)
{
	int fd = dup(x->root_fd);
	const char *slash;

	while (fd >= 0 && (slash = strchr(path, '/')) != NULL) {
		char name[NAME_MAX_BYTES + 1];
		size_t len = (size_t)(slash - path);
		int next;

		if (len >= sizeof(name)) {
			(void)close(fd);
			return -ENAMETOOLONG;
		}
		memcpy(name, path, len);
		name[len] = '\0';
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(fd);
		fd = next;
		path = slash + 1;
	}
	*out_name = path;
	return fd >= 0 ? fd : -errno;
}

static int
remember(struct made **list, const char *path, const struct dump_file *f)
{
	size_t len = strlen(path) + 1;
	struct made *m = mem_zalloc(sizeof(*m) + len);

	if (m == NULL) {
		return -ENOMEM;
	}
	m->object = f->object;
	m->inode = f->inode;
	memcpy(m->path, path, len);
	m->next = *list;
	*list = m;
	return 0;
}

/* ---- contents ---- */

struct copy {
	struct dump_pool *p;
	const struct dump_file *f;
	int fd;
};

static int
write_at(int fd, const uint8_t *from, uint64_t len, uint64_t off)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, from, len, (off_t)off);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EIO;
		}
		from += n;
		off += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* A data block; what can't be read is left a hole, and said. */
static int
copy_block(void *arg, uint32_t level, uint64_t index, const struct dump_bp *bp)
{
	struct copy *c = arg;
	uint64_t off, size = c->f->inode.size;
	uint8_t *buf;
	int err;

	if (level > 0 || index >= DIV_UP(size, (uint64_t)c->f->slot.block_bytes)) {
		return 0;
	}
	off = index * c->f->slot.block_bytes;
	buf = mem_zalloc(bp->logical);
	if (buf == NULL) {
		return -ENOMEM;
	}
	err = dump_block_read(c->p, bp, buf);
	if (err == 0) {
		err = write_at(c->fd, buf, MIN((uint64_t)bp->logical, size - off), off);
	} else {
		out_error("object %llu: byte %llu on: %s", (unsigned long long)c->f->object,
		    (unsigned long long)off, err_str(err));
		err = 0;
	}
	mem_free(buf);
	return err;
}

static int
contents_write(struct extract *x, const struct dump_file *f, int fd)
{
	struct copy c = {x->fs->p, f, fd};

	if (ftruncate(fd, (off_t)f->inode.size) != 0) {
		return -errno;
	}
	if (f->slot.is_inline) {
		return write_at(
		    fd, f->slot.inl, MIN((uint64_t)f->slot.inline_len, f->inode.size), 0);
	}
	return dump_tree_each(x->fs->p, &f->slot, copy_block, &c);
}

/* ---- attributes ---- */

static int
attributes_set(const struct extract *x, const struct dump_inode *i, int fd)
{
	struct timespec times[2] = {
	    {.tv_sec = i->atime.sec, .tv_nsec = (long)i->atime.nsec},
	    {.tv_sec = i->mtime.sec, .tv_nsec = (long)i->mtime.nsec},
	};

	if (x->is_root && fchown(fd, i->uid, i->gid) != 0) {
		return -errno;
	}
	if (fchmod(fd, i->mode & (x->is_root ? 07777 : 0777)) != 0 || futimens(fd, times) != 0) {
		return -errno;
	}
	return 0;
}

/* ---- one entry ---- */

static int
regular_make(struct extract *x, int dir, const char *name, const struct dump_file *f)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int err;

	if (fd < 0) {
		return -errno;
	}
	err = contents_write(x, f, fd);
	err = err != 0 ? err : attributes_set(x, &f->inode, fd);
	if (close(fd) != 0 && err == 0) {
		err = -errno;
	}
	return err;
}

static int
symlink_make(struct extract *x, int dir, const char *name, const struct dump_file *f)
{
	char target[LINK_MAX + 1] = {0};
	uint64_t len = MIN(f->inode.size, (uint64_t)LINK_MAX);
	int err = dump_object_read(x->fs->p, &f->slot, 0, target, len);

	if (err != 0) {
		return err;
	}
	if (memchr(target, 0, len) != NULL || len == 0) {
		return -ERR_CORRUPT;
	}
	if (symlinkat(target, dir, name) != 0 ||
	    (x->is_root &&
		fchownat(dir, name, f->inode.uid, f->inode.gid, AT_SYMLINK_NOFOLLOW) != 0)) {
		return -errno;
	}
	return 0;
}

static int
special_make(struct extract *x, int dir, const char *name, const struct dump_inode *i)
{
	static const mode_t kind[] = {
	    [INO_BLK] = S_IFBLK, [INO_CHR] = S_IFCHR, [INO_SOCK] = S_IFSOCK, [INO_FIFO] = S_IFIFO};

	if (!x->is_root && i->type != INO_FIFO) {
		return -EPERM;
	}
	return mknodat(dir, name, kind[i->type] | (i->mode & 0777),
		   makedev(i->rdev_major, i->rdev_minor)) != 0
		   ? -errno
		   : 0;
}

/* 1: it was linked to what has been extracted. */
static int
link_make(struct extract *x, int dir, const char *name, const struct dump_file *f)
{
	for (const struct made *m = x->linked[f->object % BUCKETS]; m != NULL; m = m->next) {
		const char *old_name;
		int old_dir, err;

		if (m->object != f->object) {
			continue;
		}
		old_dir = parent_open(x, m->path, &old_name);
		if (old_dir < 0) {
			return old_dir;
		}
		err = linkat(old_dir, old_name, dir, name, 0) != 0 ? -errno : 1;
		(void)close(old_dir);
		return err;
	}
	return 0;
}

static int
entry_make(struct extract *x, int dir, const char *name, const struct dump_file *f)
{
	switch (f->inode.type) {
	case INO_REG:
		return regular_make(x, dir, name, f);
	case INO_DIR:
		return mkdirat(dir, name, 0700) != 0 ? -errno : 0;
	case INO_LNK:
		return symlink_make(x, dir, name, f);
	default:
		return special_make(x, dir, name, &f->inode);
	}
}

static int
extract_one(void *arg, const char *path, const struct dump_file *f)
{
	struct extract *x = arg;
	bool is_dir = f->inode.type == INO_DIR;
	const char *name;
	int dir, err = 0;

	if (*path == '\0') {
		return remember(&x->dirs, path, f); /* the directory itself is there */
	}
	dir = parent_open(x, path, &name);
	if (dir < 0) {
		out_error("%s: %s", path, err_str(dir));
		return 0;
	}
	if (!is_dir && f->inode.nlink > 1) {
		err = link_make(x, dir, name, f);
	}
	if (err == 0) {
		err = entry_make(x, dir, name, f);
		if (err == 0 && (is_dir || f->inode.nlink > 1)) {
			err =
			    remember(is_dir ? &x->dirs : &x->linked[f->object % BUCKETS], path, f);
		}
	}
	(void)close(dir);
	if (err < 0) {
		out_error("%s: %s", path, err_str(err));
	}
	return err == -ENOMEM ? err : 0;
}

static void
dirs_finish(struct extract *x)
{
	while (x->dirs != NULL) {
		struct made *m = x->dirs;
		const char *name;
		int dir = parent_open(x, m->path, &name);
		int fd = dir < 0 ? dir
				 : openat(dir, *name != '\0' ? name : ".",
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int err = fd < 0 ? -errno : attributes_set(x, &m->inode, fd);

		if (err != 0) {
			out_error("%s: %s", m->path, err_str(err));
		}
		if (fd >= 0) {
			(void)close(fd);
		}
		if (dir >= 0) {
			(void)close(dir);
		}
		x->dirs = m->next;
		mem_free(m);
	}
	for (uint32_t i = 0; i < BUCKETS; i++) {
		while (x->linked[i] != NULL) {
			struct made *m = x->linked[i];

			x->linked[i] = m->next;
			mem_free(m);
		}
	}
}

static int
extract_all(struct extract *x, const struct dump_file *start, const char *path)
{
	const char *last = strrchr(path, '/');
	int err;

	if (start->inode.type == INO_DIR) {
		err = dump_walk(x->fs, start, true, extract_one, x);
	} else {
		err = extract_one(x, last != NULL ? last + 1 : path, start);
	}
	dirs_finish(x);
	return err;
}

int
cmd_extract(struct dump_pool *p, const char *dataset, const char *path, const char *dir)
{
	struct extract *x = mem_zalloc(sizeof(*x));
	struct dump_fs fs;
	struct dump_file start;
	int err = x != NULL ? dump_fs_open(p, dataset, &fs) : -ENOMEM;

	if (err == 0) {
		err = dump_path_find(&fs, path, &start);
		if (err != 0) {
			out_error("%s: %s: %s", dataset, path, err_str(err));
		}
	}
	if (err == 0) {
		x->fs = &fs;
		x->is_root = geteuid() == 0;
		if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
			out_error("%s: %s", dir, err_str(errno));
		}
		x->root_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = x->root_fd < 0 ? -errno : 0;
		if (err != 0) {
			out_error("%s: %s", dir, err_str(err));
		}
	}
	if (err == 0) {
		err = extract_all(x, &start, path);
		(void)close(x->root_fd);
	}
	mem_free(x);
	return err != 0;
}
