/* cmd_object.c - object and block: what lies where. */
#include <stdlib.h>

#include "dump/bytes.h"
#include "dump/dump.h"

static int
bp_line(void *arg, uint32_t level, uint64_t index, const struct dump_bp *bp)
{
	const struct dump_slot *slot = arg;

	(void)printf("%*slevel %u block %llu: ", (int)(slot->levels - level) * 2, "", level,
	    (unsigned long long)index);
	dump_bp_show(stdout, bp);
	(void)putchar('\n');
	return 0;
}

static void
slot_show(uint64_t number, const struct dump_slot *s)
{
	struct dump_inode ino;

	(void)printf(
	    "object %llu: %s, generation %llu, born in txg %llu, blocks of %u, block count %llu, "
	    "%llu sectors\n",
	    (unsigned long long)number, dump_type_name(s->type), (unsigned long long)s->generation,
	    (unsigned long long)s->birth, s->block_bytes, (unsigned long long)s->block_count,
	    (unsigned long long)s->used_sectors);
	if (s->type >= TYPE_FILE && dump_inode_decode(s->bonus, s->type, &ino) == NULL) {
		(void)printf("inode: mode %04o, links %u, owner %u:%u, size %llu, change %llu, "
			     "parent %llu\n",
		    ino.mode, ino.nlink, ino.uid, ino.gid, (unsigned long long)ino.size,
		    (unsigned long long)ino.change, (unsigned long long)ino.parent);
	}
	if (s->is_inline) {
		(void)printf("inline data, %u bytes:\n", s->inline_len);
		out_hexdump(stdout, s->inl, s->inline_len);
	}
}

static int
objset_of(struct dump_pool *p, const char *dataset, struct dump_objset *out)
{
	struct dump_fs fs;
	int err;

	if (strcmp(dataset, ":mos") == 0) {
		return dump_mos(p, out);
	}
	err = dump_fs_open(p, dataset, &fs);
	*out = fs.os;
	return err;
}

int
cmd_object(struct dump_pool *p, const char *dataset, const char *number)
{
	struct dump_objset os;
	struct dump_slot slot;
	char *end;
	uint64_t object = strtoull(number, &end, 0);
	int err;

	if (*number == '\0' || *end != '\0') {
		out_error("'%s' isn't an object number", number);
		return 2;
	}
	err = objset_of(p, dataset, &os);
	if (err == 0) {
		err = dump_slot_read(p, &os, object, &slot);
	}
	if (err == 0) {
		slot_show(object, &slot);
		err = dump_tree_each(p, &slot, bp_line, &slot);
	}
	if (err != 0) {
		out_error("object %s of %s: %s", number, dataset, err_str(err));
	}
	return err != 0;
}

/* ---- accounts ---- */

static void
account_show(const char *kind, uint64_t id, const uint8_t *pair)
{
	uint64_t sectors = b64(pair, 0), objects = b64(pair, 8);

	if ((sectors | objects) != 0) {
		(void)printf("%s\t%llu\tsectors=%llu\tobjects=%llu\n", kind, (unsigned long long)id,
		    (unsigned long long)sectors, (unsigned long long)objects);
	}
}

static int
account_block(void *arg, uint32_t level, uint64_t index, const struct dump_bp *bp)
{
	const uint32_t per_block = DUMP_ACCOUNT_BLOCK / 32;
	uint8_t *buf;
	int err;

	if (level != 0) {
		return 0;
	}
	if (bp->logical != DUMP_ACCOUNT_BLOCK) {
		return -ERR_CORRUPT;
	}
	buf = mem_zalloc(DUMP_ACCOUNT_BLOCK);
	if (buf == NULL) {
		return -ENOMEM;
	}
	err = dump_block_read(arg, bp, buf);
	for (uint32_t i = 0; i < per_block && err == 0; i++) {
		account_show("user", index * per_block + i, buf + 32 * i);
		account_show("group", index * per_block + i, buf + 32 * i + 16);
	}
	mem_free(buf);
	return err;
}

int
cmd_accounts(struct dump_pool *p, const char *dataset)
{
	struct dump_objset os;
	int err = objset_of(p, dataset, &os);

	if (err == 0 && os.accounts_next != UINT64_MAX) {
		(void)printf("only objects below %llu of %llu are counted\n",
		    (unsigned long long)os.accounts_next, (unsigned long long)os.next_object);
	}
	if (err == 0 && os.accounts.type != TYPE_FREE) {
		err = dump_tree_each(p, &os.accounts, account_block, p);
	}
	if (err != 0) {
		out_error("accounts of %s: %s", dataset, err_str(err));
	}
	return err != 0;
}

/* SET:SECTOR:ASIZE */
static bool
where_parse(
    const struct dump_pool *p, const char *where, uint32_t *set, uint64_t *sector, uint32_t *asize)
{
	unsigned long long v[3] = {0};
	char tail;

	if (sscanf(where, "%llu:%llu:%llu%c", &v[0], &v[1], &v[2], &tail) != 3 ||
	    v[0] >= p->config.set_count || v[2] == 0 || v[2] > UINT16_MAX) {
		return false;
	}
	*set = (uint32_t)v[0];
	*sector = v[1];
	*asize = (uint32_t)v[2];
	return true;
}

/* The longest block that takes asize sectors; 0: none does. */
static uint32_t
length_of(const struct dump_set *s, uint32_t asize)
{
	for (uint32_t len = BLOCK_MAX; len > 0; len -= SECTOR) {
		if (dump_stripe_asize(s, len) == asize) {
			return len;
		}
	}
	return 0;
}

int
cmd_block(struct dump_pool *p, const char *where)
{
	uint32_t set, asize, len;
	uint64_t sector;
	uint8_t *buf;
	bool damaged;
	int err;

	if (!where_parse(p, where, &set, &sector, &asize)) {
		out_error("'%s' isn't SET:SECTOR:ASIZE of this pool", where);
		return 2;
	}
	len = length_of(&p->config.sets[set], asize);
	if (len == 0) {
		out_error("no block of set %u takes %u sectors", set, asize);
		return 2;
	}
	buf = mem_zalloc(len);
	if (buf == NULL) {
		return 1;
	}
	err = dump_stripe_read(&p->config.sets[set], sector, len, buf, NULL, NULL, &damaged);
	if (err == 0) {
		dump_stripe_show(stdout, &p->config.sets[set], sector, len);
		out_hexdump(stdout, buf, len);
	} else {
		out_error("block %s: %s", where, err_str(err));
	}
	mem_free(buf);
	return err != 0;
}
