//! Tests of files on a simulated disk. Each test decides when a call of the disk ends.

use super::{Call, CallDone, CallEnd, Descriptor, FileError, FileIo, Files, PartsTo};
use crate::net::Part;
use muster_storage::{FileDone, FileId, FileOp, FileToken, OpenMode};
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

const A: FileId = FileId(1);
const B: FileId = FileId(2);

/// An open file, named by its path.
#[derive(Clone)]
struct Open(Rc<String>);

impl Descriptor for Open {
    fn is_in_use(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }
}

/// A disk that records the operations that are started.
#[derive(Default)]
struct Disk {
    started: Vec<String>,
    calls: VecDeque<Call<Open>>,
    ended: VecDeque<CallDone<Open>>,
    /// Paths that can be opened without the disk.
    cached: Vec<&'static str>,
    /// Files that are in use by operations.
    used: Vec<Open>,
    slice: String,
}

impl FileIo for Disk {
    type File = Open;
    type Conn = u32;

    fn open_at_once(&mut self, path: &Path, _: OpenMode) -> Option<Open> {
        let path = path.display().to_string();
        self.cached.contains(&&*path).then(|| Open(Rc::new(path)))
    }

    fn call(&mut self, call: Call<Open>) {
        self.started.push(match &call {
            Call::Open { path, .. } => format!("open {}", path.display()),
            Call::Truncate { file, .. } => format!("truncate {}", file.0),
            Call::Rename { from, to } => format!("rename {} {}", from.display(), to.display()),
            Call::RemoveFile { path } | Call::RemoveDir { path } => {
                format!("remove {}", path.display())
            }
            Call::MoveDir { from, .. } => format!("move {}", from.display()),
            Call::Link(_) => "link".to_owned(),
            Call::Keep { path, .. } => format!("keep {}", path.display()),
            Call::Look { path, file } => {
                let file = file.as_ref().map_or("no file", |file| &**file.0);
                format!("look {} for {file}", path.display())
            }
            Call::Close { file } => format!("close {}", file.0),
        });
        self.calls.push_back(call);
    }

    fn ended(&mut self) -> Option<Result<CallDone<Open>, FileError>> {
        self.ended.pop_front().map(Ok)
    }

    fn write(&mut self, file: &Open, _: OpenMode, _: u64, _: &[u8], _: FileToken) {
        self.started.push(format!("write {}", file.0));
        self.used.push(file.clone());
    }

    fn read(&mut self, file: &Open, _: u64, _: u32, _: FileToken) {
        self.started.push(format!("read {}", file.0));
    }

    fn sync(&mut self, file: &Open, _: FileToken) {
        self.started.push(format!("sync {}", file.0));
    }

    fn put_bytes(&mut self, _: Vec<u8>) {}

    fn put_file(&mut self, file: &Open, _: u64, _: u32) {
        self.slice += &format!(" {}", file.0);
    }

    fn send(&mut self, _: PartsTo<u32>) {
        self.started.push(format!("send{}", std::mem::take(&mut self.slice)));
    }
}

struct Story {
    files: Files<Disk>,
    disk: Disk,
    tokens: u64,
}

impl Story {
    fn new() -> Self {
        Self { files: Files::new(2, 0), disk: Disk::default(), tokens: 0 }
    }

    fn perform(&mut self, op: FileOp) {
        self.files.perform(&mut self.disk, op).unwrap();
    }

    fn open(&mut self, file: FileId, path: &str) {
        self.perform(FileOp::Open { file, path: path.into(), mode: OpenMode::CACHED });
    }

    fn close(&mut self, file: FileId) {
        self.perform(FileOp::Close { file });
    }

    fn write(&mut self, file: FileId) {
        let token = self.token();
        self.perform(FileOp::Write { token, file, offset: 0, data: vec![7] });
    }

    fn read(&mut self, file: FileId) {
        let token = self.token();
        self.perform(FileOp::Read { token, file, offset: 0, len: 1 });
    }

    fn send(&mut self, files: &[FileId]) {
        let part = |file: &FileId| Part::File { file: *file, offset: 0, len: 1 };
        let parts = files.iter().map(part).collect();
        self.files.send_parts(&mut self.disk, parts, PartsTo::Socket(0)).unwrap();
    }

    fn token(&mut self) -> FileToken {
        self.tokens += 1;
        FileToken(self.tokens)
    }

    /// Ends the next call. Returns the completion; None if the call completes nothing.
    fn ends(&mut self) -> Option<FileDone> {
        match self.all_ends().pop()? {
            CallEnd::Done(done) => Some(done),
            CallEnd::NotSent { reason, .. } => panic!("{reason}"),
        }
    }

    /// Ends the next call. Returns the results that it completes.
    fn all_ends(&mut self) -> Vec<CallEnd<u32>> {
        let done = match self.disk.calls.pop_front().expect("a call is under way") {
            Call::Open { path, mode: OpenMode::EXISTING } if path.starts_with("gone") => {
                CallDone::NotOpened(std::io::ErrorKind::NotFound.into())
            }
            Call::Open { path, .. } => CallDone::Opened(Open(Rc::new(path.display().to_string()))),
            Call::Rename { from, .. } if from.starts_with("gone") => {
                CallDone::NotRenamed { from, error: std::io::ErrorKind::NotFound.into() }
            }
            Call::Look { file, .. } => CallDone::Looked(Ok(file.map(|_| 4_096))),
            _ => CallDone::Done,
        };
        self.disk.ended.push_back(done);
        let ends = self.files.called(&mut self.disk).unwrap();
        self.files.resume(&mut self.disk);
        ends
    }

    /// Ends all operations.
    fn operations_end(&mut self) {
        self.disk.used.clear();
        self.files.resume(&mut self.disk);
    }

    #[track_caller]
    fn started(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.disk.started), expected);
    }
}

#[test]
fn what_needs_a_file_waits_for_its_open_and_nothing_else_does() {
    let mut story = Story::new();
    story.disk.cached = vec!["b/1"];
    story.open(A, "a/1");
    story.write(A);
    story.read(A);
    story.started(&["open a/1"]);
    story.open(B, "b/1");
    story.write(B);
    story.send(&[B]);
    story.started(&["write b/1", "send b/1"]);
    story.send(&[A, B]);
    story.send(&[B]);
    story.started(&["send b/1"]);
    story.ends();
    story.started(&["write a/1", "read a/1", "send a/1 b/1"]);
}

#[test]
fn a_failed_read_names_its_file_and_the_place() {
    let mut story = Story::new();
    story.open(A, "topics/a/1");
    story.ends();
    let token = story.token();
    story.perform(FileOp::Read { token, file: A, offset: 512, len: 1 });
    let done = story.files.read(token, Err(std::io::Error::other("broken")));
    let reason = "topics/a/1, at byte 512: broken".to_owned();
    assert_eq!(done, FileDone::ReadFailed { token, reason });
}

#[test]
fn a_file_beside_names_that_change_is_not_opened_before_them() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1", "b/1"];
    story.perform(FileOp::RemoveFile { path: "a/1".into() });
    story.open(A, "a/1");
    story.open(B, "b/1");
    story.write(B);
    story.started(&["remove a/1", "open a/1", "write b/1"]);
}

/// If a commit were written to a segment before its rename is durable, a power loss could undo the
/// rename, and the commit would be lost.
#[test]
fn changes_wait_for_the_rename_of_a_file_beside_theirs_and_reads_do_not() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1", "b/1"];
    story.open(A, "a/1");
    story.open(B, "b/1");
    story.perform(FileOp::Rename { token: None, from: "a/2".into(), to: "a/3".into() });
    story.write(A);
    story.read(A);
    story.send(&[A]);
    story.write(B);
    story.started(&["rename a/2 a/3", "read a/1", "send a/1", "write b/1"]);
    story.perform(FileOp::Rename { token: None, from: "a/4".into(), to: "a/5".into() });
    story.write(A);
    story.ends();
    story.started(&["rename a/4 a/5", "write a/1"]);
    story.ends();
    story.started(&["write a/1"]);
}

/// The second rename waits until the id is opened again, and this waits for the write. So the write
/// must not wait for that rename.
#[test]
fn changes_do_not_wait_for_a_rename_that_was_requested_after_them() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1"];
    story.open(A, "a/1");
    story.perform(FileOp::Rename { token: None, from: "a/2".into(), to: "a/3".into() });
    story.write(A);
    story.close(A);
    story.open(A, "a/4");
    story.perform(FileOp::Rename { token: None, from: "a/5".into(), to: "a/6".into() });
    story.started(&["rename a/2 a/3"]);
    story.ends();
    story.started(&["write a/1", "open a/4", "rename a/5 a/6"]);
}

#[test]
fn an_id_is_used_again_once_nothing_needs_the_file_before() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1"];
    story.open(A, "a/1");
    story.open(B, "b/1");
    story.send(&[A, B]);
    story.close(A);
    story.open(A, "c/1");
    story.write(A);
    story.started(&["open b/1"]);
    story.ends();
    story.started(&["send a/1 b/1", "close a/1", "open c/1"]);
    story.ends();
    story.ends();
    story.started(&["write c/1"]);
}

#[test]
fn a_truncation_is_between_the_operations_before_and_behind_it() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1"];
    story.open(A, "a/1");
    story.write(A);
    story.perform(FileOp::Truncate { file: A, len: 0 });
    story.write(A);
    story.close(A);
    story.started(&["write a/1", "truncate a/1"]);
    story.ends();
    story.started(&["write a/1"]);
    story.operations_end();
    story.started(&["close a/1"]);
}

/// The second open waits for the truncation, so the truncation cannot wait for it.
#[test]
fn a_truncation_begins_before_a_later_open_of_the_id() {
    let mut story = Story::new();
    story.open(A, "a/1");
    story.perform(FileOp::Truncate { file: A, len: 0 });
    story.write(A);
    story.close(A);
    story.open(A, "a/2");
    story.started(&["open a/1"]);
    story.ends();
    story.started(&["truncate a/1"]);
    story.ends();
    story.started(&["write a/1", "open a/2"]);
}

#[test]
fn opens_wait_for_closes_and_closes_for_nothing() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1", "b/1", "c/1", "d/1"];
    for (file, path) in [(A, "a/1"), (B, "b/1")] {
        story.open(file, path);
        story.write(file);
        story.close(file);
    }
    story.started(&["write a/1", "write b/1"]);
    story.open(A, "c/1");
    story.perform(FileOp::RemoveFile { path: "d/2".into() });
    story.started(&[]);
    assert_eq!(story.files.counters().opens_delayed, 1);
    story.operations_end();
    story.started(&["close a/1", "close b/1"]);
    story.ends();
    story.started(&["open c/1", "remove d/2"]);
    assert!(story.files.is_busy());
}

#[test]
fn the_oldest_operation_and_the_first_call_that_waits_are_known_with_their_times() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1", "b/1"];
    let standing = |story: &Story| {
        let standing = story.files.standing();
        (standing.operation_since, standing.deferred_since)
    };
    assert_eq!(standing(&story), (None, None));
    for (now, file, path) in [(100, A, "a/1"), (200, B, "b/1")] {
        story.files.advance(now);
        story.open(file, path);
        story.read(file);
        story.disk.used.push(Open(Rc::clone(&story.files.lane(file).unwrap().file().unwrap().0)));
        story.close(file);
    }
    story.files.advance(300);
    story.open(A, "c/1");
    assert_eq!(standing(&story), (Some(100), Some(300)), "two files are closing");
    story.files.read(FileToken(1), Ok(Vec::new()));
    story.files.read(FileToken(2), Ok(Vec::new()));
    assert_eq!(standing(&story), (None, Some(300)), "the disk owes nothing");
    story.files.advance(400);
    story.operations_end();
    assert_eq!(standing(&story), (Some(400), Some(300)), "files are being closed");
    story.files.advance(500);
    story.ends();
    assert_eq!(standing(&story), (Some(500), None), "another call is the first");
    assert_eq!(story.files.gauges(600).oldest_operation_micros, 100_000);
    story.files.advance(700);
    story.ends();
    story.ends();
    assert_eq!(standing(&story), (None, None));
    story.send(&[A]);
    assert_eq!(standing(&story), (Some(700), None), "a slice is an operation, too");
    story.files.slice_ended(0);
    assert_eq!(standing(&story), (None, None));
}

#[test]
fn a_look_follows_the_changes_of_names_before_it_and_knows_the_open_file() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1"];
    story.open(A, "a/1");
    story.perform(FileOp::Rename { token: None, from: "a/2".into(), to: "a/1".into() });
    let look = |token, file| FileOp::Look { token: FileToken(token), path: "a/1".into(), file };
    story.perform(look(7, Some(A)));
    story.perform(look(8, None));
    story.started(&["rename a/2 a/1", "look a/1 for a/1", "look a/1 for no file"]);
    assert_eq!(story.ends(), None);
    // In this test a look finds only a file that is open.
    let looked = |token, len| FileDone::Looked { token: FileToken(token), len };
    assert_eq!(story.ends(), Some(looked(7, Some(4_096))));
    assert_eq!(story.ends(), Some(looked(8, None)));
}

/// An id may already belong to the next file while the previous file is still open.
#[test]
fn a_look_is_never_at_the_file_that_its_id_had_before() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1"];
    story.open(A, "a/1");
    story.perform(FileOp::Truncate { file: A, len: 0 });
    story.close(A);
    story.open(A, "b/1");
    let token = story.token();
    story.perform(FileOp::Look { token, path: "b/1".into(), file: Some(A) });
    story.started(&["truncate a/1"]);
    story.ends();
    story.started(&["close a/1", "open b/1", "look b/1 for no file"]);
}

#[test]
fn a_look_that_waits_keeps_no_file_from_being_closed() {
    const OTHERS: [FileId; 4] = [FileId(3), FileId(4), FileId(5), FileId(6)];
    let mut story = Story::new();
    let paths = ["a/1", "b/1", "c/1", "d/1"];
    story.disk.cached = paths.to_vec();
    for (file, path) in OTHERS.into_iter().zip(paths) {
        story.open(file, path);
    }
    // While two files are closing, an open waits, and so do the operations that follow.
    let [first, second, looked, other] = OTHERS;
    for file in [first, second] {
        story.write(file);
        story.close(file);
    }
    story.open(A, "e/1");
    for (file, path) in [(looked, "c/1"), (other, "d/1")] {
        let token = story.token();
        story.perform(FileOp::Look { token, path: path.into(), file: Some(file) });
        story.close(file);
    }
    story.started(&["write a/1", "write b/1", "close c/1", "close d/1"]);
    story.operations_end();
    story.started(&["close a/1", "close b/1"]);
    (0..3).for_each(|_| drop(story.ends()));
    story.started(&["open e/1", "look c/1 for no file", "look d/1 for no file"]);
}

#[test]
fn operations_on_a_file_that_is_gone_fail_and_the_next_one_tries_again() {
    let mut story = Story::new();
    let open = |path: &str| FileOp::Open { file: A, path: path.into(), mode: OpenMode::EXISTING };
    story.perform(open("gone/1"));
    story.read(A);
    story.write(A);
    story.perform(FileOp::Sync { token: FileToken(3), file: A });
    story.perform(FileOp::Truncate { file: A, len: 0 });
    story.started(&["open gone/1"]);
    let reason = || "could not open gone/1: entity not found".to_owned();
    let lost = |token| CallEnd::Done(FileDone::Lost { token: FileToken(token), reason: reason() });
    let failed =
        |token| CallEnd::Done(FileDone::ReadFailed { token: FileToken(token), reason: reason() });
    assert_eq!(story.all_ends(), [failed(1), lost(2), lost(3)]);
    assert!(!story.files.is_busy());
    assert_eq!(story.files.descriptors(), 0);
    story.started(&[]);
    story.tokens = 3;
    story.read(A);
    story.started(&["open gone/1"]);
    // The id now belongs to another file.
    story.close(A);
    story.perform(open("b/1"));
    story.read(A);
    assert_eq!(story.all_ends(), [failed(4)]);
    story.started(&["open b/1"]);
    assert_eq!(story.all_ends(), []);
    story.started(&["read b/1"]);
}

#[test]
fn a_rename_with_a_token_completes_even_if_the_file_is_gone() {
    let mut story = Story::new();
    let mut rename = |token, from: &str| {
        story.perform(FileOp::Rename { token, from: from.into(), to: "a/2".into() });
        story.all_ends()
    };
    let token = FileToken(1);
    assert_eq!(rename(None, "a/1"), []);
    assert_eq!(rename(Some(token), "a/1"), [CallEnd::Done(FileDone::Renamed { token })]);
    let reason = "could not rename gone/1: entity not found".to_owned();
    assert_eq!(rename(Some(token), "gone/1"), [CallEnd::Done(FileDone::Lost { token, reason })]);
}

#[test]
fn a_slice_with_a_file_that_is_gone_is_not_sent_and_keeps_no_file_open() {
    let mut story = Story::new();
    story.disk.cached = vec!["a/1"];
    story.open(A, "a/1");
    story.perform(FileOp::Open { file: B, path: "gone/1".into(), mode: OpenMode::EXISTING });
    story.send(&[A, B]);
    story.close(A);
    story.started(&["open gone/1"]);
    let reason = "could not open gone/1: entity not found".to_owned();
    assert_eq!(story.all_ends(), [CallEnd::NotSent { conn: 0, reason }]);
    story.started(&["close a/1"]);
    assert_eq!(story.files.standing().operation_since, Some(0), "the close");
    story.ends();
    story.close(B);
    assert!(!story.files.is_busy());
    assert_eq!(story.files.descriptors(), 0);
}
