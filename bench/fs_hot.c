/*
 * fs_hot.c - what one call of the hot operations of fs/ costs on one reactor, everything in memory:
 * no drive is waited for (sync=disabled, simulated drives). Prints nanoseconds a call.
 */
#include <stdio.h>
#include "fs/fs.h"
#include "kernel-bypass/kb_sim.h"

#define DRIVES 3u
#define FILES 2000u
#define ROUNDS 400000u

struct bench {
	struct kb_sim_medium *media[DRIVES];
	struct fs_ds *ds;
	struct fs_node *root, *files[FILES];
	struct fs_req req;
	uint64_t sum;
};

static uint32_t
name_of(uint32_t i, char *out)
{
	return (uint32_t)sprintf(out, "file-%06u", i);
}

static void
report(const char *what, uint64_t start_ns, uint32_t calls)
{
	printf("%-28s %8.0f ns\n", what, (double)(rt_now_ns() - start_ns) / calls);
	fiber_yield();
}

static void
bench_create(struct bench *b)
{
	char name[32];
	struct fs_create_args args = {
	    .type = FS_REG, .how = FS_CREATE_GUARDED, .set = {.set_mode = true, .mode = 0644}};
	uint64_t start = rt_now_ns();
	for (uint32_t i = 0; i < FILES; i++) {
		struct fs_result res;
		int err =
		    fs_create(b->root, &b->req, name, name_of(i, name), &args, &b->files[i], &res);
		ASSERT(err == 0);
	}
	report("CREATE", start, FILES);
}

static void
bench_look(struct bench *b)
{
	char name[32];
	struct fs_attr a;
	uint64_t start = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		fs_getattr(b->files[i % FILES], &a);
		b->sum += a.change;
	}
	report("GETATTR", start, ROUNDS);
	start = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		b->sum += fs_access(b->files[i % FILES], &b->req.cred, 0x3f);
	}
	report("ACCESS", start, ROUNDS);
	start = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		const struct fs_node *f = b->files[i % FILES];
		struct fs_node *n;
		int err = fs_node_get(b->ds, fs_node_object(f), fs_node_generation(f), &n);
		ASSERT(err == 0);
		fs_node_put(n);
	}
	report("node get and put", start, ROUNDS);
	start = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct fs_node *n;
		int err = fs_lookup(b->root, &b->req.cred, name, name_of(i % FILES, name), &n);
		ASSERT(err == 0);
		fs_node_put(n);
	}
	report("LOOKUP (with the name's sprintf)", start, ROUNDS);
	start = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct fs_node *n;
		int err = fs_lookup(b->root, &b->req.cred, "no-such-file", 12, &n);
		ASSERT(err == -ENOENT);
	}
	report("LOOKUP of nothing", start, ROUNDS);
}

static bool
emit(void *arg, const struct fs_dirent *e)
{
	*(uint64_t *)arg += e->object;
	return true;
}

static void
bench_list(struct bench *b)
{
	for (int plus = 0; plus < 2; plus++) {
		uint64_t start = rt_now_ns();
		for (uint32_t i = 0; i < 50; i++) {
			bool eof;
			int err =
			    fs_readdir(b->root, &b->req.cred, 0, plus != 0, emit, &b->sum, &eof);
			ASSERT(err == 0 && eof);
		}
		report(plus ? "READDIRPLUS, an entry" : "READDIR, an entry", start, 50 * FILES);
	}
}

static void
bench_write(struct bench *b, uint32_t len, const char *what)
{
	static uint8_t data[65536];
	struct fs_result res;
	struct iovec iov = {.iov_base = data, .iov_len = len};
	uint32_t rounds = 20000;
	uint64_t start = rt_now_ns();
	for (uint32_t i = 0; i < rounds; i++) {
		int err =
		    fs_write(b->files[i % FILES], &b->req, 0, &iov, 1, NULL, FS_UNSTABLE, &res);
		ASSERT(err == 0);
	}
	report(what, start, rounds);
}

static void
bench_read(struct bench *b, uint32_t len, const char *what)
{
	struct pool_slice slices[8];
	uint64_t start = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS / 4; i++) {
		struct fs_attr a;
		uint32_t count = 0, got = 0;
		bool eof;
		int err = fs_read(
		    b->files[i % FILES], &b->req.cred, 0, len, slices, 8, &count, &got, &eof, &a);
		ASSERT(err == 0 && got == len);
		for (uint32_t k = 0; k < count; k++) {
			iobuf_unref(slices[k].buf);
		}
	}
	report(what, start, ROUNDS / 4);
}

static void
bench_change(struct bench *b)
{
	char name[32];
	struct fs_result res;
	struct fs_sattr set = {.set_mode = true, .mode = 0600};
	uint64_t start = rt_now_ns();
	for (uint32_t i = 0; i < 20000; i++) {
		int err = fs_setattr(b->files[i % FILES], &b->req, &set, NULL, &res);
		ASSERT(err == 0);
	}
	report("SETATTR", start, 20000);
	start = rt_now_ns();
	for (uint32_t i = 0; i < FILES; i++) {
		fs_node_put(b->files[i]);
		int err = fs_remove(b->root, &b->req, name, name_of(i, name), &res);
		ASSERT(err == 0);
	}
	report("REMOVE", start, FILES);
}

static void
bench_main(void *arg)
{
	struct bench *b = arg;
	struct kb_drive *drives[DRIVES];
	char why[200];
	for (uint32_t i = 0; i < DRIVES; i++) {
		int err = kb_sim_open(b->media[i], &drives[i]);
		ASSERT(err == 0);
	}
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, DRIVES, drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	struct pool *p;
	struct fs_pool *fp;
	int err = pool_create(&spec, &p, why, sizeof(why));
	ASSERT(err == 0);
	err = fs_pool_open(p, NULL, NULL, &fp);
	ASSERT(err == 0);
	err = fs_prop_set(fp, "tank", "sync", "disabled", why, sizeof(why));
	ASSERT(err == 0);
	err = fs_ds_open(fp, "tank", &b->ds);
	ASSERT(err == 0);
	err = fs_root(b->ds, &b->root);
	ASSERT(err == 0);
	bench_create(b);
	bench_look(b);
	bench_list(b);
	bench_write(b, 100, "WRITE 100 bytes, in the slot");
	bench_read(b, 100, "READ 100 bytes");
	bench_write(b, 4096, "WRITE 4 KiB");
	bench_read(b, 4096, "READ 4 KiB");
	bench_change(b);
	fs_node_put(b->root);
	fs_ds_close(b->ds);
	fs_pool_close(fp);
	err = pool_export(p);
	ASSERT(err == 0);
}

int
main(void)
{
	static struct bench b;
	struct rt_options opt = {.reactors = 1, .arena_bytes = 512 * MIB};
	log_set_level(LOG_ERROR);
	for (uint32_t i = 0; i < DRIVES; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "drive%u", i);
		b.media[i] = kb_sim_medium_create(name, 1 * GIB);
		ASSERT(b.media[i] != NULL);
	}
	int err = rt_run(&opt, bench_main, &b);
	for (uint32_t i = 0; i < DRIVES; i++) {
		kb_sim_medium_destroy(b.media[i]);
	}
	return err == 0 ? 0 : 1;
}
