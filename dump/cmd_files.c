/* cmd_files.c - ls and cat. */
#include "dump/dump.h"

#define LINK_MAX 4095u
#define CHUNK (1u << 20)

static char
type_letter(uint32_t type)
{
	return type < 8 ? "?-dbclsp"[type] : '?';
}

static void
mode_show(const struct dump_inode *i)
{
	static const char bits[] = "rwxrwxrwx";
	char text[11] = {type_letter(i->type)};

	for (unsigned k = 0; k < 9; k++) {
		text[k + 1] = (i->mode >> (8 - k) & 1) != 0 ? bits[k] : '-';
	}
	if ((i->mode & 04000) != 0) {
		text[3] = text[3] == 'x' ? 's' : 'S';
	}
	if ((i->mode & 02000) != 0) {
		text[6] = text[6] == 'x' ? 's' : 'S';
	}
	if ((i->mode & 01000) != 0) {
		text[9] = text[9] == 'x' ? 't' : 'T';
	}
	(void)fputs(text, stdout);
}

static int
ls_one(void *arg, const char *path, const struct dump_file *f)
{
	const struct dump_inode *i = &f->inode;
	struct dump_fs *fs = arg;

	mode_show(i);
	(void)printf(" %u %u %u ", i->nlink, i->uid, i->gid);
	if (i->type == INO_BLK || i->type == INO_CHR) {
		(void)printf("%u,%u ", i->rdev_major, i->rdev_minor);
	} else {
		(void)printf(
		    "%llu ", (unsigned long long)(i->type == INO_DIR ? i->dir_entries : i->size));
	}
	out_time(stdout, i->mtime.sec, i->mtime.nsec);
	(void)putchar(' ');
	out_text(stdout, *path != '\0' ? path : ".", *path != '\0' ? strlen(path) : 1);
	if (i->type == INO_LNK) {
		uint8_t target[LINK_MAX];
		uint64_t len = MIN(i->size, (uint64_t)LINK_MAX);
		int err = dump_object_read(fs->p, &f->slot, 0, target, len);

		(void)fputs(" -> ", stdout);
		if (err == 0) {
			out_text(stdout, target, len);
		} else {
			(void)putchar('?');
			out_error("%s: %s", path, err_str(err));
		}
	}
	(void)putchar('\n');
	return 0;
}

static int
start_find(struct dump_fs *fs, const char *dataset, const char *path, struct dump_file *out)
{
	int err = dump_path_find(fs, path, out);

	if (err != 0) {
		out_error("%s: %s: %s", dataset, path, err_str(err));
	}
	return err;
}

int
cmd_ls(struct dump_pool *p, const char *dataset, const char *path, bool recursive)
{
	struct dump_fs fs;
	struct dump_file start;
	int err = dump_fs_open(p, dataset, &fs);

	if (err == 0 && (fs.ds.root.hole || fs.os.root_object == 0) && *path == '\0') {
		return 0;
	}
	if (err == 0) {
		err = start_find(&fs, dataset, path, &start);
	}
	if (err == 0) {
		err = dump_walk(&fs, &start, recursive, ls_one, &fs);
	}
	return err != 0;
}

int
cmd_cat(struct dump_pool *p, const char *dataset, const char *path)
{
	uint8_t *buf = mem_zalloc(CHUNK);
	struct dump_fs fs;
	struct dump_file f;
	int err = buf != NULL ? dump_fs_open(p, dataset, &fs) : -ENOMEM;

	if (err == 0) {
		err = start_find(&fs, dataset, path, &f);
	}
	if (err == 0 && f.inode.type != INO_REG && f.inode.type != INO_LNK) {
		out_error("%s is neither a file nor a link", path);
		err = -EINVAL;
	}
	for (uint64_t off = 0; err == 0 && off < f.inode.size;) {
		uint64_t len = MIN(f.inode.size - off, (uint64_t)CHUNK);

		err = dump_object_read(p, &f.slot, off, buf, len);
		if (err != 0) {
			out_error(
			    "%s: byte %llu on: %s", path, (unsigned long long)off, err_str(err));
		} else if (fwrite(buf, 1, len, stdout) != len) {
			err = -EIO;
		}
		off += len;
	}
	mem_free(buf);
	return err != 0;
}
