/*
 * ilog_window.c - replay's reading of one side: a window that is read ahead, and batches copied
 * together from it. Memory is small and fixed (a window a side, two batches in all), so that an
 * import never waits for what another pool's log holds. A window that can't be read is tried again
 * sector by sector: what is bad may be outside of the batch that is wanted.
 */
#include "intentlog/ilog_replay_int.h"

int
replay_window(
    struct replay *r, unsigned side, uint64_t off_bytes, const uint8_t **out, uint32_t *out_len)
{
	struct window *w = &r->win[side];
	const struct ilog_side *from = &r->cfg->sides[side];
	uint64_t len = MIN(REPLAY_WINDOW_BYTES, r->cfg->region_bytes - off_bytes);
	int err = -EIO;

	if (off_bytes < w->off_bytes || off_bytes >= w->off_bytes + w->len_bytes) {
		w->len_bytes = 0;
		if (off_bytes >= w->small_until) {
			err = kb_read(
			    from->drive, from->off_bytes + off_bytes, w->buf, (uint32_t)len);
		}
		if (err != 0) {
			w->small_until = MAX(w->small_until, off_bytes + len);
			len = SECTOR_BYTES;
			err =
			    kb_read(from->drive, from->off_bytes + off_bytes, w->buf, SECTOR_BYTES);
		}
		if (err != 0) {
			return err;
		}
		w->off_bytes = off_bytes;
		w->len_bytes = (uint32_t)len;
	}
	*out = w->buf->data + (off_bytes - w->off_bytes);
	*out_len = (uint32_t)(w->off_bytes + w->len_bytes - off_bytes);
	return 0;
}

static int
window_copy(struct replay *r, unsigned side, uint64_t off_bytes, uint8_t *to, uint32_t len)
{
	while (len > 0) {
		const uint8_t *from;
		uint32_t n;
		int err = replay_window(r, side, off_bytes, &from, &n);

		if (err != 0) {
			return err;
		}
		n = MIN(n, len);
		memcpy(to, from, n);
		to += n;
		off_bytes += n;
		len -= n;
	}
	return 0;
}

int
replay_side(struct replay *r, unsigned side, const struct ilog_expect *want, uint8_t *buf,
    struct ilog_batch_info *out)
{
	uint64_t off = want->off_bytes;
	int err = window_copy(r, side, off, buf, SECTOR_BYTES);

	if (err != 0) {
		return err;
	}
	err = ilog_batch_decode(buf, SECTOR_BYTES, want, out);
	if (err != -ERR_TOOSMALL) {
		return err;
	}
	if (out->len_bytes > r->cfg->region_bytes - off) {
		return -ERR_CORRUPT;
	}
	err = window_copy(
	    r, side, off + SECTOR_BYTES, buf + SECTOR_BYTES, out->len_bytes - SECTOR_BYTES);
	return err != 0 ? err : ilog_batch_decode(buf, out->len_bytes, want, out);
}
