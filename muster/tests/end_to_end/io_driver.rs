//! Servers to which the kernel does not permit io_uring, for example because of a container
//! engine's seccomp profile, or because they may lock little memory. Such a server polls its
//! sockets, logs this once, and keeps acknowledged data. This file repeats some tests of other
//! files with such a server. With `MUSTER_IO_DRIVER=poll`, all tests run with one.

use crate::support::driver::{ENOSYS, EPERM, polled, refuse_io_uring};
use crate::support::offsets::{commit, committed};
use crate::support::{Server, command, create_topic, free_ports, produce, said};
use crate::{
    back_pressure, bad_input, crash, descriptors, durability, fetch_memory, power_loss, sessions,
    tls, transactions, write_errors,
};
use std::process::{Command, Stdio};

/// The log has one line with these words if the server polls, for whatever reason.
const FALLBACK: &str = "muster does without io_uring";

/// Checks that the server still has its commits and records after kill -9.
fn keeps_what_it_acknowledged(mut server: Server) -> Server {
    create_topic(&server, "orders", 1);
    commit(&server, "g", "orders", 0, 41);
    assert_eq!(produce(&mut server.client(0), "orders", b"a record"), Some(0));
    server.kill();
    let server = server.restart();
    assert_eq!(committed(&server, "g")[&("orders".to_owned(), 0)].0, 41);
    assert_eq!(produce(&mut server.client(0), "orders", b"another"), Some(1));
    server
}

fn under_a_filter(errno: u32, cause: &'static str) {
    let story = move || {
        refuse_io_uring(errno);
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(directory.path(), 1, &["io.driver=auto"]);
        let mut server = keeps_what_it_acknowledged(server);
        let line = server.line_with(FALLBACK);
        assert!(line.contains("WARN") && line.contains(cause), "{line}");
        assert_eq!(server.lines_with(FALLBACK), 1);
        assert!(server.stop().success());

        let asked = ["io.driver=io_uring".to_owned()];
        let output = command(directory.path(), free_ports(1), 1, &asked).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(cause), "{}", said(&output));
    };
    std::thread::spawn(story).join().unwrap();
}

#[test]
fn a_filter_that_forbids_io_uring_is_named_and_the_server_polls() {
    under_a_filter(EPERM, "io_uring is forbidden, most likely by a seccomp profile");
}

#[test]
fn a_filter_that_hides_io_uring_is_named_and_the_server_polls() {
    under_a_filter(ENOSYS, "This kernel has no io_uring, or a seccomp profile hides it");
}

/// A server that may lock this amount of memory. If the test runs as root, the server loses the
/// privilege to exceed it.
fn with_locked_memory(kib: u32, shards: u16) -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let port = free_ports(shards);
    let server = command(directory.path(), port, shards, &["io.driver=auto".to_owned()]);
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--memlock={}", kib << 10));
    limited.args(["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-all"]);
    limited.arg(server.get_program()).args(server.get_args());
    limited.stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = Server::of(limited, directory.path(), port, shards);
    (directory, server)
}

#[test]
fn with_little_locked_memory_rings_are_small_and_with_less_there_are_none() {
    let (_directory, server) = with_locked_memory(64, 1);
    server.says("allows no full rings: each shard");
    assert_eq!(server.lines_with(FALLBACK), 0);
    create_topic(&server, "orders", 1);

    for (kib, shards) in [(64, 4), (16, 1), (0, 1)] {
        let (_directory, server) = with_locked_memory(kib, shards);
        let line = server.line_with(FALLBACK);
        assert!(line.contains(&format!("RLIMIT_MEMLOCK allows {kib} KiB")), "{line}");
        create_topic(&server, "orders", 1);
        commit(&server, "g", "orders", 0, 7);
    }
}

macro_rules! with_polling {
    ($($file:ident::$story:ident,)*) => {$(
        mod $story {
            #[test]
            fn with_polling() {
                super::polled(super::$file::$story);
            }
        }
    )*};
}

with_polling! {
    back_pressure::a_stop_does_not_wait_for_clients_that_do_not_read,
    back_pressure::clients_that_fill_the_log_are_answered_when_it_accepts_again,
    back_pressure::pipelined_fetches_are_answered_in_order,
    bad_input::a_client_that_ends_its_input_gets_records_and_is_closed_then,
    bad_input::a_client_that_ends_its_input_still_gets_its_answers,
    bad_input::a_client_that_never_reads_is_held_back_and_the_others_are_not,
    bad_input::connections_over_the_limit_are_closed_and_counted_down_again,
    bad_input::connections_wait_for_a_place_of_their_listener,
    bad_input::half_a_frame_and_silence_is_closed_when_idle,
    crash::acknowledged_data_survives_kill_9,
    descriptors::connections_leave_descriptors_to_the_files,
    durability::commits_survive_kill_9_and_a_clean_stop,
    durability::partitions_are_served_by_their_assigned_shards,
    fetch_memory::a_fetch_between_other_requests_is_answered_in_its_place_byte_by_byte,
    fetch_memory::a_file_that_is_too_short_ends_only_the_connection,
    fetch_memory::an_answer_under_way_is_complete_though_its_topic_is_deleted,
    power_loss::no_acknowledged_data_is_lost_with_the_power,
    sessions::members_survive_a_server_stopped_for_longer_than_their_sessions,
    tls::answers_are_the_same_as_without_tls_however_long,
    tls::half_handshakes_are_closed_after_a_while_and_others_do_not_wait,
    transactions::an_open_transaction_continues_after_kill_9,
    write_errors::a_commit_that_cannot_be_written_ends_the_server_and_the_others_are_kept,
}
