//! Share sessions: epochs, limits, forgotten topics, connections that end.

#![allow(clippy::unwrap_used)]

use muster_codec::{ErrorCode, Uuid};
use muster_fairness::{Address, Exceeded};
use muster_shares::limits::SESSION_PARTITIONS_MAX;
use muster_shares::sessions::{
    Begun, Disconnected, Ended, FetchContext, SessionFetch, SessionKey, SessionLimit,
};
use muster_shares::{Sessions, TopicPartition};

fn at(partition: i32) -> TopicPartition {
    TopicPartition { topic_id: Uuid([1; 16]), partition }
}

fn key(member: &str) -> SessionKey {
    SessionKey::new("g", member)
}

fn request(epoch: i32, connection: u64, topics: &[TopicPartition]) -> SessionFetch<'_> {
    let address = Address::of("/127.0.0.1");
    let (forgotten, has_acknowledgements): (&[TopicPartition], _) = (&[], false);
    SessionFetch { epoch, topics, forgotten, has_acknowledgements, connection, address }
}

fn begun(context: FetchContext, partitions: &[TopicPartition]) -> Result<Begun, ErrorCode> {
    Ok(Begun { context, partitions: partitions.to_vec() })
}

#[test]
fn a_session_is_opened_used_and_closed() {
    let mut sessions = Sessions::new(10, SESSION_PARTITIONS_MAX);
    let m = key("m");
    let opened = sessions.fetch(&m, &request(0, 1, &[at(1), at(0), at(1)]));
    assert_eq!(opened, begun(FetchContext::Initial, &[at(1), at(0)]));
    let (added, forgotten) = ([at(2), at(0)], [at(1)]);
    let more = SessionFetch { forgotten: &forgotten, ..request(1, 1, &added) };
    assert_eq!(sessions.fetch(&m, &more), begun(FetchContext::Subsequent, &[at(0), at(2)]));
    assert_eq!(sessions.acknowledge(&m, 2), Ok(()));
    assert_eq!(sessions.fetch(&m, &request(-1, 1, &[])), begun(FetchContext::Final, &[]));
    let ended = Ended { member_id: "m".into(), partitions: vec![at(0), at(2)] };
    assert_eq!(sessions.close(&m), Ok(ended));
    assert_eq!(sessions.close(&m), Err(ErrorCode::ShareSessionNotFound));
}

#[test]
fn wrong_epochs_have_kafkas_errors() {
    let mut sessions = Sessions::new(10, SESSION_PARTITIONS_MAX);
    let m = key("m");
    for epoch in [-1, 1, 7] {
        let answer = sessions.fetch(&m, &request(epoch, 1, &[at(0)]));
        assert_eq!(answer, Err(ErrorCode::ShareSessionNotFound));
    }
    assert_eq!(sessions.acknowledge(&m, -1), Err(ErrorCode::ShareSessionNotFound));
    assert_eq!(sessions.acknowledge(&m, 0), Err(ErrorCode::InvalidShareSessionEpoch));
    let with_acknowledgements = SessionFetch { has_acknowledgements: true, ..request(0, 1, &[]) };
    assert_eq!(sessions.fetch(&m, &with_acknowledgements), Err(ErrorCode::InvalidRequest));
    sessions.fetch(&m, &request(0, 1, &[at(0)])).unwrap();
    for epoch in [2, -2] {
        let answer = sessions.fetch(&m, &request(epoch, 1, &[]));
        assert_eq!(answer, Err(ErrorCode::InvalidShareSessionEpoch));
        assert_eq!(sessions.acknowledge(&m, epoch), Err(ErrorCode::InvalidShareSessionEpoch));
    }
    assert_eq!(sessions.epoch(&m), Some(1));
}

#[test]
fn the_number_of_sessions_has_a_limit() {
    let mut sessions = Sessions::new(1, SESSION_PARTITIONS_MAX);
    sessions.fetch(&key("m"), &request(0, 1, &[])).unwrap();
    let other = sessions.fetch(&key("n"), &request(0, 2, &[]));
    assert_eq!(other, Err(ErrorCode::ShareSessionLimitReached));
    sessions.fetch(&key("m"), &request(0, 3, &[])).unwrap();
    sessions.close(&key("m")).unwrap();
    sessions.fetch(&key("n"), &request(0, 2, &[])).unwrap();
}

#[test]
fn a_late_end_of_a_connection_does_not_end_the_new_session() {
    let mut sessions = Sessions::new(10, SESSION_PARTITIONS_MAX);
    sessions.fetch(&key("m"), &request(0, 1, &[at(0)])).unwrap();
    sessions.fetch(&key("m"), &request(0, 2, &[at(0)])).unwrap();
    let late = Disconnected { group_id: "g".into(), ended: None, is_group_gone: false };
    assert_eq!(sessions.disconnected(1), Some(late));
    assert_eq!(sessions.disconnected(1), None);
    let ended = Ended { member_id: "m".into(), partitions: vec![at(0)] };
    let now = Disconnected { group_id: "g".into(), ended: Some(ended), is_group_gone: true };
    assert_eq!(sessions.disconnected(2), Some(now));
}

#[test]
fn a_later_answer_has_only_the_partitions_with_news() {
    let mut sessions = Sessions::new(10, SESSION_PARTITIONS_MAX);
    let m = key("m");
    sessions.fetch(&m, &request(0, 1, &[at(0), at(1)])).unwrap();
    sessions.fetch(&m, &request(1, 1, &[at(2)])).unwrap();
    assert!(sessions.is_answered(&m, at(0), true, false));
    assert!(!sessions.is_answered(&m, at(1), false, false));
    assert!(sessions.is_answered(&m, at(1), false, true));
    assert!(sessions.is_answered(&m, at(2), false, false), "it has just been added");
    assert!(!sessions.is_answered(&m, at(2), false, false));
    let next = sessions.fetch(&m, &request(2, 1, &[]));
    assert_eq!(next, begun(FetchContext::Subsequent, &[at(1), at(2), at(0)]));
}

/// Opens sessions with these partitions until one is refused. Returns their number, and the reason.
fn open_all(
    sessions: &mut Sessions,
    host: &str,
    topics: &[TopicPartition],
) -> (usize, (SessionLimit, Exceeded)) {
    for opened in 0.. {
        let key = SessionKey::new("g", &format!("{host} {opened}"));
        let fetch = SessionFetch { address: Address::of(host), ..request(0, 1, topics) };
        if let Err(error) = sessions.fetch(&key, &fetch) {
            assert_eq!(error, ErrorCode::ShareSessionLimitReached);
            return (opened, sessions.take_refused().unwrap());
        }
    }
    unreachable!("there is a limit")
}

#[test]
fn an_address_leaves_an_eighth_of_the_sessions_and_of_their_partitions_to_others() {
    let many: Vec<_> = (0..10_000).map(at).collect();
    let share = |limit| (limit, Exceeded::Share);
    let mut sessions = Sessions::new(2_000, SESSION_PARTITIONS_MAX);
    let hog = open_all(&mut sessions, "/127.0.0.2", &many);
    assert_eq!(hog, (43, share(SessionLimit::Partitions)));
    let other = open_all(&mut sessions, "/127.0.0.1", &many[..1_000]);
    assert_eq!(other, (35, share(SessionLimit::Partitions)));
    assert_eq!(sessions.partition_count(), 465_000);
    assert!(sessions.partition_count() < SESSION_PARTITIONS_MAX);

    let grows = |sessions: &mut Sessions, epoch, topics: &[TopicPartition]| {
        let request =
            SessionFetch { address: Address::of("/127.0.0.1"), ..request(epoch, 1, topics) };
        sessions
            .fetch(&SessionKey::new("g", "/127.0.0.1 0"), &request)
            .map(|it| it.partitions.len())
    };
    assert_eq!(grows(&mut sessions, 1, &many[..1_000]), Ok(1_000), "it has them");
    assert_eq!(grows(&mut sessions, 2, &many), Err(ErrorCode::ShareSessionLimitReached));

    let mut sessions = Sessions::new(2_000, SESSION_PARTITIONS_MAX);
    let hog = open_all(&mut sessions, "/127.0.0.2", &[]);
    assert_eq!(hog, (1_750, share(SessionLimit::Sessions)));
    assert_eq!(open_all(&mut sessions, "/127.0.0.1", &[]), (125, share(SessionLimit::Sessions)));
    sessions.close(&SessionKey::new("g", "/127.0.0.2 7")).unwrap();
    assert_eq!(open_all(&mut sessions, "/127.0.0.3", &many[..1]).0, 63);
}
