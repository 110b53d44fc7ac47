//! Messages there and back, cut, and damaged.

use super::*;
use crate::{Frames, Kind};
use muster_replication::NodeId;

fn frame_of(messages: &[PeerMessage]) -> Building {
    let mut frame = Building::default();
    for message in messages {
        let before = frame.len();
        write(message, &mut frame);
        assert_eq!(frame.len() - before, length(message), "{message:?}");
    }
    frame
}

fn body_of(messages: &[PeerMessage]) -> Bytes {
    let bytes = frame_of(messages).finish(Kind::Groups, Tick(1)).concat();
    Frames::default().take(&mut &*bytes).unwrap().unwrap().body
}

fn read(body: &[u8]) -> Result<Vec<PeerMessage>> {
    Messages::of(Bytes::copy_from_slice(body)).collect()
}

/// Random messages. They need not be possible in any state.
struct Random(fastrand::Rng);

impl Random {
    fn index(&mut self) -> Index {
        // Above an index there is room for the entries of a message.
        Index(self.0.u64(..Index::LIMIT.0 - 100) >> self.0.u32(..48))
    }

    fn position(&mut self) -> (Index, Term) {
        (self.index(), Term(self.0.u32(..)))
    }

    fn replica(&mut self) -> ReplicaId {
        ReplicaId::new(self.0.u64(1..1 << 48), NodeId(self.0.u16(..)))
    }

    fn replicas(&mut self) -> Vec<ReplicaId> {
        (0..self.0.usize(..=MEMBERS_MAX)).map(|_| self.replica()).collect()
    }

    fn change(&mut self) -> Change {
        match self.0.u8(..4) {
            0 => Change::AddLearner(self.replica()),
            1 => Change::RemoveLearner(self.replica()),
            2 => Change::Replace { old: self.replica(), new: self.replica() },
            _ => Change::Leave,
        }
    }

    fn content(&mut self) -> Content {
        match self.0.u8(..4) {
            0 => Content::Empty,
            1 => Content::Change(self.change()),
            _ => {
                let most = if self.0.u8(..10) == 0 { 5_000 } else { 100 };
                let length = self.0.usize(1..most);
                Content::Records((0..length).map(|_| self.0.u8(..)).collect())
            }
        }
    }

    fn append(&mut self) -> Body {
        let previous = self.position();
        let after = previous.0.0 + 1;
        let indexes = after..after + self.0.u64(..5);
        let mut entry = |index| {
            let term = Term(self.0.u32(..));
            Entry { index: Index(index), term, content: self.content() }
        };
        let entries = indexes.map(&mut entry).collect();
        Body::Append { previous, commit: self.index(), entries }
    }

    fn round(&mut self) -> Option<Round> {
        self.0.bool().then(|| Round(self.0.u64(..)))
    }

    fn body(&mut self) -> Body {
        match self.0.u8(..9) {
            0 => self.append(),
            1 => Body::Appended { last: self.index() },
            2 => Body::Rejected { at: self.index(), hint: self.position() },
            3 => Body::Heartbeat { commit: self.index(), round: self.round() },
            4 => Body::Heard { round: self.round() },
            5 => Body::Vote {
                pre: self.0.bool(),
                transfer: self.0.bool(),
                last: self.position(),
                commit: self.position(),
            },
            6 => {
                Body::Voted { pre: self.0.bool(), granted: self.0.bool(), commit: self.position() }
            }
            7 => {
                let (index, term) = self.position();
                let [voters, outgoing, learners] = [(); 3].map(|()| self.replicas());
                Body::Install {
                    base: Base { index, term, members: Members { voters, outgoing, learners } },
                }
            }
            _ => Body::StandNow,
        }
    }

    fn message(&mut self) -> PeerMessage {
        PeerMessage {
            group: Group(self.0.u16(..)),
            from: self.replica(),
            to: self.replica(),
            term: Term(self.0.u32(..)),
            echo: Tick(self.0.u32(..)),
            body: self.body(),
        }
    }

    fn messages(&mut self) -> Vec<PeerMessage> {
        (0..self.0.usize(..8)).map(|_| self.message()).collect()
    }
}

#[test]
fn messages_are_read_as_they_were_written() {
    for seed in 0..2_000 {
        let messages = Random(fastrand::Rng::with_seed(seed)).messages();
        assert_eq!(read(&body_of(&messages)), Ok(messages), "seed {seed}");
    }
}

#[test]
fn a_cut_body_has_the_messages_before_the_cut() {
    for seed in 0..100 {
        let messages = Random(fastrand::Rng::with_seed(seed)).messages();
        let body = body_of(&messages);
        let mut ends = vec![0];
        for message in &messages {
            ends.push(ends[ends.len() - 1] + length(message));
        }
        for cut in 0..body.len() {
            let read: Vec<_> = Messages::of(body.slice(..cut)).collect();
            let whole = ends.iter().filter(|it| **it <= cut).count() - 1;
            let expected: Vec<_> = messages[..whole].iter().cloned().map(Ok).collect();
            assert_eq!(read[..whole], expected, "seed {seed} cut at {cut}");
            let is_between = ends.contains(&cut);
            assert_eq!(read.len(), whole + usize::from(!is_between), "seed {seed} cut at {cut}");
            assert!(is_between || read[whole].is_err());
        }
    }
}

/// There is one form for each message: what can be read is written with the same bytes.
#[test]
fn a_flipped_bit_is_refused_or_is_part_of_another_message() {
    for seed in 0..60 {
        let mut random = Random(fastrand::Rng::with_seed(seed));
        let message = random.message();
        let body = body_of(std::slice::from_ref(&message));
        for bit in 0..8 * body.len() {
            let mut damaged = body.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = read(&damaged) {
                assert_ne!(read, std::slice::from_ref(&message), "seed {seed} bit {bit}");
                assert_eq!(body_of(&read), damaged, "seed {seed} bit {bit}");
            }
        }
    }
}

/// The body of a message with this number and these flags.
fn form(number: u8, flags: u8, body: &[&[u8]]) -> Vec<u8> {
    let replica = ReplicaId::new(1, NodeId(1)).raw().to_be_bytes();
    let head = [&[number, flags, 0, 1, 0, 0, 0, 9, 0, 0, 0, 2][..], &replica, &replica].concat();
    [head, body.concat()].concat()
}

#[test]
fn each_refusal_has_its_reason() {
    const AT: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 7];
    const LIMIT: &[u8] = &[0, 1, 0, 0, 0, 0, 0, 0];
    const LAST: &[u8] = &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    const TERM: &[u8] = &[0, 0, 0, 2];
    const ONE: &[u8] = &[0, 0, 0, 1];
    const NONE: &[u8] = &[0, 0, 0, 0];
    let no_replica = [&form(9, 0, &[])[..12], &[0; 16]].concat();
    let change_of_nothing = [&[2][..], TERM, &[0, 0, 0, 17, 9], &[0; 16]].concat();
    let table = [
        (form(0, 0, &[]), "an unknown kind"),
        (form(10, 0, &[]), "an unknown kind"),
        (form(2, 1, &[AT]), "an unknown flag"),
        (form(5, 2, &[]), "an unknown flag"),
        (form(6, 4, &[AT, TERM, AT, TERM]), "an unknown flag"),
        (no_replica, "a replica without a number"),
        (form(2, 0, &[LIMIT]), "an index out of range"),
        (form(1, 0, &[LAST, TERM, AT, ONE, &[1], TERM, NONE]), "an index out of range"),
        (form(1, 0, &[AT, TERM, AT, &[0xff; 4], &[0; 90]]), "more entries than bytes"),
        (form(1, 0, &[AT, TERM, AT, ONE, &[0], TERM, NONE]), "an unknown content of an entry"),
        (form(1, 0, &[AT, TERM, AT, ONE, &[3], TERM, NONE]), "an unknown content of an entry"),
        (form(1, 0, &[AT, TERM, AT, ONE, &[1], TERM, ONE, &[0]]), "an unknown content of an entry"),
        (form(1, 0, &[AT, TERM, AT, ONE, &change_of_nothing]), "an unknown change of members"),
        (form(1, 0, &[AT, TERM, AT, ONE, &[0], TERM, &[0xff; 4]]), "it ends too early"),
        (form(8, 0, &[AT, TERM, &[17, 0, 0], &[1; 136]]), "too many members"),
        (form(8, 0, &[AT, TERM, &[2, 0, 0], &[1; 8]]), "it ends too early"),
    ];
    for (body, why) in table {
        assert_eq!(read(&body), Err(FrameError::Message(why)), "{body:?}");
    }
}

#[test]
fn received_records_are_parts_of_the_frame() {
    let records = Bytes::from(vec![7; 100]);
    let entry = Entry { index: Index(8), term: Term(2), content: Content::Records(records) };
    let message = PeerMessage {
        group: Group(1),
        from: ReplicaId::new(1, NodeId(1)),
        to: ReplicaId::new(1, NodeId(2)),
        term: Term(2),
        echo: Tick(9),
        body: Body::Append {
            previous: (Index(7), Term(2)),
            commit: Index(7),
            entries: vec![entry],
        },
    };
    let body = body_of(&[message]);
    let read = Messages::of(body.clone()).next().unwrap().unwrap();
    let Body::Append { entries, .. } = read.body else { panic!("{read:?}") };
    let Content::Records(records) = &entries[0].content else { panic!("{entries:?}") };
    assert!(body.as_ptr_range().contains(&records.as_ptr()));
}

#[test]
#[should_panic = "entries follow each other"]
fn entries_with_a_gap_are_not_written() {
    let entry = Entry { index: Index(9), term: Term(2), content: Content::Empty };
    let body =
        Body::Append { previous: (Index(7), Term(2)), commit: Index(7), entries: vec![entry] };
    let message = PeerMessage { body, ..Random(fastrand::Rng::with_seed(1)).message() };
    write(&message, &mut Building::default());
}

fn said(body: Body) -> PeerMessage {
    let (from, to) = (ReplicaId::new(1, NodeId(1)), ReplicaId::new(1, NodeId(2)));
    PeerMessage { group: Group(3), from, to, term: Term(5), echo: Tick(6), body }
}

fn append(bytes: &[usize]) -> PeerMessage {
    let entry = |(index, bytes): (u64, &usize)| Entry {
        index: Index(index),
        term: Term(index as u32),
        content: Content::Records(Bytes::from(vec![index as u8; *bytes])),
    };
    let entries = (8..).zip(bytes).map(entry).collect();
    said(Body::Append { previous: (Index(7), Term(7)), commit: Index(9), entries })
}

/// raft joins entries to a message without a look at its size.
#[test]
fn a_long_append_is_divided_between_its_entries() {
    const MIB: usize = 1 << 20;
    let table: [(&[usize], &[usize]); 7] = [
        (&[], &[]),
        (&[3 * MIB], &[]),
        (&[MIB / 2, MIB / 4], &[]),
        (&[MIB / 2, MIB / 2], &[1, 1]),
        (&[10, 3 * MIB, 10, 10], &[1, 1, 2]),
        (&[MIB / 3; 7], &[2, 2, 2, 1]),
        (&[100; 20_000], &[9_619, 9_619, 762]),
    ];
    for (bytes, expected) in table {
        let whole = append(bytes);
        let parts = divided(&whole).unwrap_or_default();
        let Body::Append { entries: all, .. } = whole.body else { panic!() };
        let (mut last, mut joined, mut counts) = ((Index(7), Term(7)), vec![], vec![]);
        for part in parts {
            assert!(length(&part) <= MIB + 100 || bytes.contains(&(3 * MIB)));
            let Body::Append { previous, commit, entries } = part.body else { panic!() };
            assert_eq!(previous, last);
            last = entries.last().map(|it| (it.index, it.term)).unwrap();
            assert_eq!(commit, Index(9).min(last.0), "no entry of a later part is committed");
            counts.push(entries.len());
            joined.extend(entries);
        }
        assert_eq!(counts, expected);
        assert!(joined == all || expected.is_empty());
    }
    assert_eq!(divided(&said(Body::StandNow)), None);
}
