//! Stories of the order in which operations start, on files whose operations end when the story
//! says.

use super::{Descriptor, FileError, FileIo, Files, PartsTo};
use crate::shard::Part;
use muster_storage::{FileId, FileKey, FileOp, FileToken, OpenFiles, OpenMode};
use std::path::Path;
use std::rc::{Rc, Weak};

/// Files that may be closing when another one is opened.
const CLOSING_MAX: usize = 2;

#[derive(Debug, Clone)]
struct OpenFile(Rc<()>);

impl Descriptor for OpenFile {
    fn is_in_use(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }
}

/// The operations under way, and the slices that are being sent, with their files.
#[derive(Default)]
struct Disk {
    open: Vec<Weak<()>>,
    reads: Vec<(FileToken, OpenFile)>,
    gathered: Vec<OpenFile>,
    slices: Vec<Vec<OpenFile>>,
    sent: usize,
    open_max: usize,
}

impl FileIo for Disk {
    type File = OpenFile;
    type Conn = ();

    fn open(&mut self, _: &Path, _: OpenMode) -> Result<OpenFile, FileError> {
        let file = OpenFile(Rc::default());
        self.open.retain(|file| file.strong_count() > 0);
        self.open.push(Rc::downgrade(&file.0));
        self.open_max = self.open_max.max(self.open.len());
        Ok(file)
    }

    fn read(&mut self, file: &OpenFile, _: u64, _: u32, token: FileToken) {
        self.reads.push((token, file.clone()));
    }

    fn put_bytes(&mut self, _: Vec<u8>) {}

    fn put_file(&mut self, file: &OpenFile, _: u64, _: u32) {
        self.gathered.push(file.clone());
    }

    fn send(&mut self, _: PartsTo<()>) {
        self.slices.push(std::mem::take(&mut self.gathered));
        self.sent += 1;
    }

    fn write(&mut self, _: &OpenFile, _: OpenMode, _: u64, _: &[u8], _: FileToken) {
        unreachable!("no story writes")
    }

    fn sync(&mut self, _: &OpenFile, _: FileToken) {
        unreachable!("no story syncs")
    }

    fn truncate(&mut self, _: &OpenFile, _: u64) -> Result<(), FileError> {
        unreachable!("no story truncates")
    }

    fn rename(&mut self, _: &Path, _: &Path) -> Result<(), FileError> {
        unreachable!("no story renames")
    }

    fn remove_file(&mut self, _: &Path) -> Result<(), FileError> {
        unreachable!("no story removes")
    }

    fn remove_dir(&mut self, _: &Path) -> Result<(), FileError> {
        unreachable!("no story removes")
    }

    fn move_dir(&mut self, _: &Path, _: &Path) {
        unreachable!("no story moves")
    }
}

/// A shard's files, and the partitions that ask for them.
struct World {
    disk: Disk,
    files: Files<Disk>,
    partitions: OpenFiles,
}

impl World {
    fn new(files_max: u32) -> Self {
        let mut partitions = OpenFiles::new(0, files_max);
        (0..100).for_each(|it| partitions.hold(key(it), Path::new("topic-0"), "segment"));
        Self { disk: Disk::default(), files: Files::new(CLOSING_MAX, 0), partitions }
    }

    fn perform(&mut self, ops: Vec<FileOp>) {
        ops.into_iter().for_each(|op| self.files.perform(&mut self.disk, op).unwrap());
    }

    /// Sends a slice with a part of each of these files.
    fn send(&mut self, segments: impl IntoIterator<Item = u64>) {
        let keys: Vec<_> = segments.into_iter().map(key).collect();
        let mut ops = Vec::new();
        let files = self.partitions.open_held(&keys, &mut ops);
        self.perform(ops);
        let part = |file: FileId| Part::File { file, offset: 0, len: 1 };
        let parts = files.into_iter().map(part).collect();
        self.files.send_parts(&mut self.disk, parts, PartsTo::Socket(())).unwrap();
    }

    fn read(&mut self, segment: u64, token: u64) {
        let mut ops = Vec::new();
        let file = self.partitions.open_held(&[key(segment)], &mut ops)[0];
        ops.push(FileOp::Read { token: FileToken(token), file, offset: 0, len: 1 });
        self.perform(ops);
    }

    /// Ends the slice that was started first, or without one the first read.
    fn end_first(&mut self) {
        if self.disk.slices.is_empty() {
            let (token, _) = self.disk.reads.remove(0);
            self.files.read(token, Ok(Vec::new()));
        } else {
            self.disk.slices.remove(0);
            self.files.slice_ended(());
        }
        self.files.resume(&mut self.disk).unwrap();
    }

    fn is_anything_under_way(&self) -> bool {
        !self.disk.slices.is_empty() || !self.disk.reads.is_empty()
    }
}

fn key(segment: u64) -> FileKey {
    FileKey { log: 1, segment }
}

#[test]
fn all_slices_leave_when_each_has_as_many_files_as_may_be_open() {
    for files_max in 1..=8 {
        let mut world = World::new(files_max);
        let slices: Vec<_> = (0..100).step_by(files_max as usize).collect();
        for first in &slices {
            world.send(*first..(*first + u64::from(files_max)).min(100));
        }
        while world.is_anything_under_way() {
            world.end_first();
        }
        assert_eq!((world.disk.sent, world.files.is_busy()), (slices.len(), false), "{files_max}");
        let open_max = files_max as usize + CLOSING_MAX - 1;
        assert!(world.disk.open_max <= open_max, "{} of {open_max}", world.disk.open_max);
    }
}

#[test]
fn what_waits_for_descriptors_starts_when_reads_and_slices_have_ended() {
    let mut world = World::new(2);
    world.read(0, 10);
    world.read(1, 11);
    world.send([2, 3]);
    world.send([4, 5]);
    world.read(6, 12);
    assert_eq!((world.disk.reads.len(), world.disk.sent), (2, 0), "two files are closing");
    world.files.read(FileToken(11), Ok(Vec::new()));
    world.disk.reads.remove(1);
    world.files.resume(&mut world.disk).unwrap();
    assert_eq!((world.disk.reads.len(), world.disk.sent), (1, 1), "one of them is closed");
    while world.is_anything_under_way() {
        world.end_first();
    }
    assert_eq!((world.disk.sent, world.files.is_busy()), (2, false));
}

#[test]
fn the_oldest_operation_and_the_first_that_waits_are_known_with_their_times() {
    let mut world = World::new(2);
    let standing = |world: &World| {
        let standing = world.files.standing();
        (standing.operation_since, standing.deferred_since)
    };
    assert_eq!(standing(&world), (None, None));
    for (now, segment) in [(100, 0), (200, 1), (300, 2), (400, 3), (500, 4)] {
        world.files.advance(now);
        world.read(segment, now as u64);
    }
    assert_eq!(standing(&world), (Some(100), Some(400)), "two files are closing");
    world.files.advance(600);
    world.end_first();
    assert_eq!(standing(&world), (Some(200), Some(600)), "the next one waits");
    assert_eq!(world.files.gauges(700).oldest_operation_micros, 500_000);
    while world.is_anything_under_way() {
        world.end_first();
    }
    assert_eq!(standing(&world), (None, None));
    world.files.advance(800);
    world.send([4]);
    assert_eq!(standing(&world), (Some(800), None), "a slice is an operation, too");
    world.files.slice_ended(());
    assert_eq!(standing(&world), (None, None));
}
