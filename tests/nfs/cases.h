/* cases.h - one function for each case of a server in the field; see the files' names. */
#ifndef AGATE_TESTS_NFS_CASES_H
#define AGATE_TESTS_NFS_CASES_H

#include <stdio.h>
#include "tests/lib/nfs_rig.h"

typedef void case_fn(struct nfs_rig *r);
case_fn b01_retransmission, b01_in_progress, b01_xid_reuse, b02_exclusive_create,
    b03_read_only_file, b04_list_while_deleting, b05_cookie_verifier, b07_listing_limits,
    b08_read_at_eof, b10_counts_that_lie, b11_record_marking, b12_truncated_calls, b14_rpc_errors,
    b15_portmapper, b16_mount_paths, b16_mount_list, b17_names, b18_two_shares, b18_all_squash,
    b21_setattr, b21_times, b23_write_verifier, b25_handles, b25_stale, b27_sticky, b27_set_ids,
    b28_limits, stream_without_pause, all_places_taken, halves_hold_buffers,
    strangers_forget_nothing, export_beside_slow_reader, share_beside_another,
    verifier_of_returning_pool, parent_in_listing, names_in_every_call, devices_for_root_only,
    two_filesystems, attributes_around_changes, times_that_dont_fit, dead_handle_in_every_call,
    mount_by_datagrams, thousands_of_shares, long_paths;

/* Publishes count exports. */
void case_publish(struct nfs_rig *r, const struct nfsd_export *exports, uint32_t count);

#endif
