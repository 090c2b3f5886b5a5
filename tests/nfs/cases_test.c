/* cases_test.c - runs the cases, each on some seeds. */
#include "tests/nfs/cases.h"

#define SEEDS_EACH 3u

void
case_publish(struct nfs_rig *r, const struct nfsd_export *exports, uint32_t count)
{
	ASSERT(nfsd_publish(r->nfsd, exports, count) == 0);
}

static void
run(case_fn *fn)
{
	uint64_t seed = unit_seed(1);
	for (unsigned i = 0; i < SEEDS_EACH; i++) {
		nfs_rig_run(seed + i, fn);
	}
}

#define CASE(name) \
	static void run_##name(void) \
	{ \
		run(name); \
	}
CASE(b01_retransmission)
CASE(b01_in_progress)
CASE(b01_xid_reuse)
CASE(b02_exclusive_create)
CASE(b03_read_only_file)
CASE(b04_list_while_deleting)
CASE(b05_cookie_verifier)
CASE(b07_listing_limits)
CASE(b08_read_at_eof)
CASE(b10_counts_that_lie)
CASE(b11_record_marking)
CASE(b12_truncated_calls)
CASE(b14_rpc_errors)
CASE(b15_portmapper)
CASE(b16_mount_paths)
CASE(b16_mount_list)
CASE(b17_names)
CASE(b18_two_shares)
CASE(b18_all_squash)
CASE(b21_setattr)
CASE(b21_times)
CASE(b23_write_verifier)
CASE(b25_handles)
CASE(b25_stale)
CASE(b27_sticky)
CASE(b27_set_ids)
CASE(b28_limits)
CASE(stream_without_pause)
CASE(all_places_taken)
CASE(halves_hold_buffers)
CASE(strangers_forget_nothing)
CASE(export_beside_slow_reader)
CASE(share_beside_another)
CASE(verifier_of_returning_pool)
CASE(parent_in_listing)
CASE(names_in_every_call)
CASE(devices_for_root_only)
CASE(two_filesystems)
CASE(attributes_around_changes)
CASE(times_that_dont_fit)
CASE(dead_handle_in_every_call)
CASE(mount_by_datagrams)
CASE(thousands_of_shares)
CASE(long_paths)

int
main(int argc, char **argv)
{
#define T(name) \
	{ \
#name, run_##name \
	}
	static const struct unit_test tests[] = {T(b01_retransmission), T(b01_in_progress),
	    T(b01_xid_reuse), T(b02_exclusive_create), T(b03_read_only_file),
	    T(b04_list_while_deleting), T(b05_cookie_verifier), T(b07_listing_limits),
	    T(b08_read_at_eof), T(b10_counts_that_lie), T(b11_record_marking),
	    T(b12_truncated_calls), T(b14_rpc_errors), T(b15_portmapper), T(b16_mount_paths),
	    T(b16_mount_list), T(b17_names), T(b18_two_shares), T(b18_all_squash), T(b21_setattr),
	    T(b21_times), T(b23_write_verifier), T(b25_handles), T(b25_stale), T(b27_sticky),
	    T(b27_set_ids), T(b28_limits), T(stream_without_pause), T(all_places_taken),
	    T(halves_hold_buffers), T(strangers_forget_nothing), T(export_beside_slow_reader),
	    T(share_beside_another), T(verifier_of_returning_pool), T(parent_in_listing),
	    T(names_in_every_call), T(devices_for_root_only), T(two_filesystems),
	    T(attributes_around_changes), T(times_that_dont_fit), T(dead_handle_in_every_call),
	    T(mount_by_datagrams), T(thousands_of_shares), T(long_paths)};
	return unit_main("nfs_cases", tests, ARRAY_LEN(tests), argc, argv);
}
