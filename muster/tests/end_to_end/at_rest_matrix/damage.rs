//! All cases of damage to a data directory, by name. The names do not depend on the random ids in
//! the directory.

use super::image::Image;
use super::kinds::{Made, alias};
use super::structure::{Anatomy, Class, Piece};
use muster_storage::layout::SegmentHeader;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The kind of damage to a file or directory.
#[derive(Debug, Clone)]
pub enum Damage {
    Nothing,
    Missing,
    Empty,
    Cut(usize),
    Wipe(Range<usize>),
    Flip {
        at: usize,
        bit: u8,
    },
    Swap(PathBuf),
    /// An earlier version of the file is put back.
    Earlier,
}

/// Why a crash could have caused the same damage. If there is such a reason, the server may cut the
/// damaged bytes, but has to log this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    None,
    /// The damage is in the last block of a shard's log. A crash may tear a block that was not
    /// acknowledged yet.
    LastBlock,
    /// Records of a user topic were not synced, as in Kafka.
    Unsynced,
}

#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub path: PathBuf,
    pub is_directory: bool,
    pub damage: Damage,
    pub excuse: Excuse,
    /// The kind of file and of damage. The sample has about equally many cases of each class.
    pub class: String,
}

impl Case {
    /// The directory with the damage.
    pub fn image(&self, made: &Made) -> Image {
        let mut image = made.image.clone();
        if self.is_directory {
            self.damage_directory(&mut image, &made.earlier)
        } else {
            self.damage_file(&mut image, &made.earlier)
        }
        image
    }

    /// A refusal must name at least one of these paths.
    pub fn names(&self) -> Vec<String> {
        let mut paths = vec![self.path.clone()];
        if let Damage::Swap(other) = &self.damage {
            paths.push(other.clone());
        }
        let parents: Vec<_> = paths.iter().filter_map(|path| path.parent()).collect();
        let parents = parents.into_iter().filter(|it| !it.as_os_str().is_empty());
        let text = |path: &Path| path.display().to_string();
        parents.map(text).chain(paths.iter().map(|path| text(path))).collect()
    }

    fn damage_file(&self, image: &mut Image, earlier: &Image) {
        let bytes = image.files.entry(self.path.clone()).or_default();
        match &self.damage {
            Damage::Nothing => {}
            Damage::Missing => drop(image.files.remove(&self.path)),
            Damage::Empty => bytes.clear(),
            Damage::Cut(len) => bytes.truncate(*len),
            Damage::Wipe(place) => bytes[place.clone()].fill(0),
            Damage::Flip { at, bit } => bytes[*at] ^= 1 << bit,
            Damage::Earlier => bytes.clone_from(&earlier.files[&self.path]),
            Damage::Swap(other) => {
                let own = std::mem::take(bytes);
                let others = std::mem::replace(image.files.get_mut(other).unwrap(), own);
                image.files.insert(self.path.clone(), others);
            }
        }
    }

    fn damage_directory(&self, image: &mut Image, earlier: &Image) {
        match &self.damage {
            Damage::Missing => image.remove_directory(&self.path),
            Damage::Empty => image.remove_files_below(&self.path),
            Damage::Earlier => {
                image.remove_files_below(&self.path);
                for path in earlier.files_below(&self.path) {
                    image.files.insert(path.clone(), earlier.files[&path].clone());
                }
            }
            Damage::Swap(other) => swap_directories(image, &self.path, other),
            other => panic!("{other:?} of a directory"),
        }
    }
}

fn swap_directories(image: &mut Image, one: &Path, other: &Path) {
    let moved = |path: &Path, from: &Path, to: &Path| to.join(path.strip_prefix(from).unwrap());
    let files = std::mem::take(&mut image.files).into_iter().map(|(path, bytes)| {
        let to = match () {
            () if path.starts_with(one) => moved(&path, one, other),
            () if path.starts_with(other) => moved(&path, other, one),
            () => path,
        };
        (to, bytes)
    });
    image.files = files.collect();
}

/// All damage cases for a data directory. The undamaged directory is the first case.
pub fn cases(made: &Made) -> Vec<Case> {
    let mut cases = vec![nothing(made)];
    for (path, bytes) in made.image.files.iter().filter(|(path, bytes)| !is_unused(path, bytes)) {
        file_cases(made, path, bytes, &mut cases);
    }
    for path in &made.image.directories {
        directory_cases(made, path, &mut cases);
    }
    let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len(), "names are unique");
    cases
}

/// Whether the file is a segment that was created for later blocks and has no header yet.
pub(super) fn is_unused(path: &Path, bytes: &[u8]) -> bool {
    Class::of(path) == Class::ShardSegment && bytes.iter().all(|byte| *byte == 0)
}

fn nothing(made: &Made) -> Case {
    Case {
        name: format!("{} undamaged", made.kind.name),
        path: "meta.properties".into(),
        is_directory: false,
        damage: Damage::Nothing,
        excuse: Excuse::None,
        class: "undamaged".to_owned(),
    }
}

/// A file of the directory, with the properties that all its cases have in common.
struct File<'a> {
    made: &'a Made,
    path: &'a Path,
    class: Class,
    excuse: Excuse,
    /// The excuse applies from this offset on.
    excused_from: usize,
}

fn file_cases(made: &Made, path: &Path, bytes: &[u8], cases: &mut Vec<Case>) {
    let class = Class::of(path);
    let anatomy = Anatomy::of(class, bytes);
    let (excuse, excused_from) = excuse(made, path, class, &anatomy);
    let file = File { made, path, class, excuse, excused_from };
    // If the end of a partition's log is lost, no other file shows that it existed. Such damage to
    // the last segment can't be found.
    let is_last_of_partition = excuse == Excuse::Unsynced && is_last_in_directory(made, path);
    let is_last = excuse == Excuse::LastBlock || is_last_of_partition;
    // A log without its first segment looks as if retention had removed this segment.
    if !is_last_of_partition && !is_first_of_partition(made, path, class) {
        cases.push(file.case("missing", Damage::Missing, 0));
    }
    if !is_last_of_partition {
        cases.push(file.case("empty", Damage::Empty, 0));
    }
    if made.earlier.files.get(path).is_some_and(|earlier| earlier != bytes) && !is_last {
        cases.push(file.case("earlier copy", Damage::Earlier, 0));
    }
    for Piece { name, place } in &anatomy.blocks {
        file.block_cases(name, place, is_last_of_partition, cases);
    }
    for Piece { name, place } in &anatomy.fields {
        let draw = hash(&format!("{} {name}", alias(&made.truth, path))) as usize;
        let (at, bit) = (place.start + draw % place.len(), (draw >> 32) as u8 % 8);
        cases.push(file.case(&format!("flip {name}"), Damage::Flip { at, bit }, at));
    }
    if let Some(other) = neighbour(made, path) {
        let name = format!("swap with {}", alias(&made.truth, &other));
        cases.push(file.case(&name, Damage::Swap(other), 0));
    }
}

impl File<'_> {
    fn block_cases(
        &self,
        name: &str,
        place: &Range<usize>,
        may_be_short: bool,
        cases: &mut Vec<Case>,
    ) {
        // If the last segment of a partition is cut after a whole batch, the rest is valid.
        if place.start > 0 && !may_be_short {
            let cut = Damage::Cut(place.start);
            cases.push(self.case(&format!("cut before {name}"), cut, place.start));
        }
        let middle = place.start + place.len() / 2;
        cases.push(self.case(&format!("cut within {name}"), Damage::Cut(middle), middle));
        // If the last block before a kill is replaced by zeros, nothing shows that it existed.
        let is_forgotten = self.excuse == Excuse::LastBlock && place.start == self.excused_from;
        if !is_forgotten {
            let wipe = Damage::Wipe(place.clone());
            cases.push(self.case(&format!("wipe {name}"), wipe, place.start));
        }
    }

    fn case(&self, what: &str, damage: Damage, at: usize) -> Case {
        let name = format!("{} {} {what}", self.made.kind.name, alias(&self.made.truth, self.path));
        let excuse = if at >= self.excused_from { self.excuse } else { Excuse::None };
        let class = format!("{:?} {}", self.class, what.split(' ').next().unwrap());
        Case { name, path: self.path.to_owned(), is_directory: false, damage, excuse, class }
    }
}

/// Why a crash could cause damage to this file, and from which byte on.
fn excuse(made: &Made, path: &Path, class: Class, anatomy: &Anatomy) -> (Excuse, usize) {
    match class {
        Class::ShardSegment if made.kind.is_killed && is_last_with_blocks(made, path) => {
            (Excuse::LastBlock, anatomy.last.start)
        }
        Class::PartitionSegment if made.kind.is_killed => (Excuse::Unsynced, 0),
        _ => (Excuse::None, 0),
    }
}

fn is_last_with_blocks(made: &Made, path: &Path) -> bool {
    let has_blocks = |path: &PathBuf| {
        let bytes = &made.image.files[path];
        let (header, _) = SegmentHeader::read(bytes).unwrap();
        !super::structure::blocks(bytes, &header).is_empty()
    };
    segments_beside(made, path).into_iter().rfind(has_blocks).is_some_and(|last| last == path)
}

fn is_first_of_partition(made: &Made, path: &Path, class: Class) -> bool {
    class == Class::PartitionSegment
        && segments_beside(made, path).first().is_some_and(|first| first == path)
}

fn is_last_in_directory(made: &Made, path: &Path) -> bool {
    segments_beside(made, path).last().is_some_and(|last| last == path)
}

/// The segments in the same directory as the file.
fn segments_beside(made: &Made, path: &Path) -> Vec<PathBuf> {
    let directory = path.parent().unwrap();
    let is_segment = |it: &PathBuf| {
        it.extension().is_some_and(|it| it == "log") && !is_unused(it, &made.image.files[it])
    };
    made.image.files_below(directory).into_iter().filter(is_segment).collect()
}

/// A file that could be mistaken for this one: the next file in its directory, or the file with the
/// same name in the next directory that has one.
fn neighbour(made: &Made, path: &Path) -> Option<PathBuf> {
    let class = Class::of(path);
    match class {
        Class::ShardSegment | Class::PartitionSegment => {
            let beside = segments_beside(made, path);
            let own = beside.iter().position(|it| it == path)?;
            beside.get(own + 1).cloned()
        }
        Class::Snapshot | Class::Note | Class::StartOffset => {
            let name = path.file_name()?;
            let same = |it: &&PathBuf| it.file_name() == Some(name) && it.as_path() > path;
            made.image.files.keys().find(same).cloned()
        }
        Class::Stamp | Class::Lock => None,
    }
}

fn directory_cases(made: &Made, path: &Path, cases: &mut Vec<Case>) {
    let is_of_topics = path.starts_with("topics");
    // Records of a killed server may not have been synced. If they are missing, no other file shows
    // that they existed.
    if is_of_topics && made.kind.is_killed {
        return;
    }
    let mut case = |what: &str, damage: Damage| {
        let name = format!("{} {}/ {what}", made.kind.name, alias(&made.truth, path));
        let top = path.iter().next().unwrap().to_str().unwrap();
        let class = format!("directory {top} {what}");
        let path = path.to_owned();
        cases.push(Case { name, path, is_directory: true, damage, excuse: Excuse::None, class });
    };
    case("missing", Damage::Missing);
    case("empty", Damage::Empty);
    if is_of_topics && has_changed(made, path) {
        case("earlier copy", Damage::Earlier);
    }
    let numbered = path.file_name().unwrap().to_str().unwrap().parse::<u32>();
    if let Ok(number) = numbered {
        let next = path.with_file_name((number + 1).to_string());
        if made.image.directories.contains(&next) {
            case("swap with the next", Damage::Swap(next));
        }
    }
}

fn has_changed(made: &Made, directory: &Path) -> bool {
    let files = |image: &Image| {
        let below = image.files_below(directory).into_iter();
        below.map(|path| image.files[&path].clone()).collect::<Vec<_>>()
    };
    files(&made.earlier) != files(&made.image) && !files(&made.earlier).is_empty()
}

/// The FNV-1a hash, with its bits mixed once more.
pub fn hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    // The high bits must depend on the low bits.
    hash ^ hash.rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
