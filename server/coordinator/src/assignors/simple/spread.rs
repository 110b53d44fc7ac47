//! Spreads partitions over members as `reference.rs` does, but with lists and numbers instead of
//! Kafka's maps, in the order in which Java iterates over those maps.

use crate::java_order::Buckets;
use alloc::vec::Vec;

/// A partition is named by its index in `hashes`, the Java hash codes of all partitions. A member
/// is named by its index in the list of members.
pub(super) struct Spread<'s> {
    hashes: &'s [u32],
    /// The number of members that each partition should have.
    sharing: usize,
    /// The number of partitions that each member should have.
    counts: Vec<usize>,
    wanted: Vec<u32>,
    /// The members of each partition.
    holders: Vec<Holders>,
    /// The partitions in the order in which Kafka inserts them into its map.
    inserted: Vec<u32>,
    /// The size of Kafka's map before the last call of `computeIfAbsent`. With this size Java
    /// checks whether the map has to grow.
    checked: usize,
    /// The partitions of each member.
    partitions: Vec<Vec<u32>>,
}

/// The members that have a partition, in the order in which they got it. Mostly it is one member.
#[derive(Debug, Clone, Default)]
struct Holders {
    first: Option<u32>,
    others: Vec<u32>,
    /// Whether Kafka's map contains the partition.
    is_inserted: bool,
    /// The number of members before the partition was taken from some of them.
    had: u32,
}

impl<'s> Spread<'s> {
    /// `places` are the indexes of the members that may get the partitions; `members` is the number
    /// of all members.
    pub(super) fn new(places: &[u32], members: usize, wanted: Vec<u32>, hashes: &'s [u32]) -> Self {
        let sharing = places.len().div_ceil(wanted.len().max(1)) * usize::from(!wanted.is_empty());
        // Kafka computes with a double and its rounding errors.
        let share = (sharing * wanted.len()) as f64 / places.len() as f64;
        let mut counts = alloc::vec![0; members];
        for (i, place) in places.iter().enumerate() {
            counts[*place as usize] = ceil(share * (i + 1) as f64) - ceil(share * i as f64);
        }
        Self {
            hashes,
            sharing,
            counts,
            wanted,
            holders: alloc::vec![Holders::default(); hashes.len()],
            inserted: Vec::with_capacity(hashes.len()),
            checked: 0,
            partitions: Vec::new(),
        }
    }

    /// The new partitions of each member. `had` are the previous partitions, in Java's order.
    pub(super) fn run(mut self, had: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        for (place, had) in had.iter().enumerate() {
            had.iter().for_each(|partition| self.insert(*partition).hold(place as u32));
        }
        self.partitions = had;
        self.take_from_overfilled();
        self.take_overshared();
        let wanted = core::mem::take(&mut self.wanted);
        let room = wanted.len();
        for partition in wanted {
            self.insert(partition);
        }
        self.give_to_unfilled(room);
        self.partitions
    }

    /// Java's `computeIfAbsent`.
    fn insert(&mut self, partition: u32) -> &mut Holders {
        self.checked = self.inserted.len();
        let holders = &mut self.holders[partition as usize];
        if !holders.is_inserted {
            holders.is_inserted = true;
            self.inserted.push(partition);
        }
        holders
    }

    fn take_from_overfilled(&mut self) {
        for (place, partitions) in self.partitions.iter_mut().enumerate() {
            let beyond = partitions.len().saturating_sub(self.counts[place]);
            if beyond == 0 {
                continue;
            }
            let mut buckets = Buckets::default();
            buckets.grow_to_hold(partitions.len());
            let hashes = self.hashes;
            let bucket = |partition: &u32| buckets.of_hash(hashes[*partition as usize]);
            partitions.sort_by_key(bucket);
            for partition in partitions.drain(..beyond) {
                self.holders[partition as usize].release(place as u32);
            }
        }
    }

    fn take_overshared(&mut self) {
        let mut have_lost = alloc::vec![false; self.partitions.len()];
        for holders in &mut self.holders {
            if holders.len() <= self.sharing {
                continue;
            }
            let beyond = holders.len() - self.sharing;
            for place in holders.in_order().into_iter().take(beyond) {
                holders.release(place);
                have_lost[place as usize] = true;
            }
        }
        for (place, partitions) in self.partitions.iter_mut().enumerate() {
            if have_lost[place] {
                let holders = &self.holders;
                partitions.retain(|partition| holders[*partition as usize].have(place as u32));
            }
        }
    }

    /// Gives each partition, one after the other, to the next members that have too few partitions
    /// and do not have this one. Stops when no member could take a partition in a whole round.
    fn give_to_unfilled(&mut self, room: usize) {
        let places = 0..self.partitions.len();
        let mut unfilled: Vec<usize> = places.filter(|place| self.lacks(*place)).collect();
        let (mut next, mut was_given) = (0, false);
        for partition in self.in_order(room) {
            while self.holders[partition as usize].len() < self.sharing {
                if next == unfilled.len() {
                    if !was_given {
                        break;
                    }
                    (next, was_given) = (0, false);
                    if unfilled.is_empty() {
                        break;
                    }
                }
                let place = unfilled[next];
                next += 1;
                if self.holders[partition as usize].have(place as u32) {
                    continue;
                }
                self.holders[partition as usize].hold(place as u32);
                self.partitions[place].push(partition);
                was_given = true;
                if !self.lacks(place) {
                    next -= 1;
                    unfilled.remove(next);
                }
            }
        }
    }

    fn lacks(&self, place: usize) -> bool {
        self.partitions[place].len() < self.counts[place]
    }

    /// All partitions in the order of Kafka's map, which was made for `room` partitions. Within a
    /// bucket the newest comes first: `computeIfAbsent` inserts at the head.
    fn in_order(&self, room: usize) -> Vec<u32> {
        let mut buckets = Buckets::with_room_for(room);
        buckets.grow_to_hold(self.checked);
        let key = |(at, partition): (usize, &u32)| {
            let bucket = buckets.of_hash(self.hashes[*partition as usize]) as u64;
            bucket << 32 | u64::from(u32::MAX - at as u32)
        };
        let mut keys: Vec<u64> = self.inserted.iter().enumerate().map(key).collect();
        keys.sort_unstable();
        keys.into_iter().map(|key| self.inserted[(u32::MAX - key as u32) as usize]).collect()
    }
}

impl Holders {
    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    fn have(&self, place: u32) -> bool {
        self.first == Some(place) || self.others.contains(&place)
    }

    fn hold(&mut self, place: u32) {
        self.had += 1;
        if self.first.is_none() && self.others.is_empty() {
            self.first = Some(place);
        } else {
            self.others.push(place);
        }
    }

    fn release(&mut self, place: u32) {
        if self.first == Some(place) {
            self.first = None;
        } else {
            self.others.retain(|it| *it != place);
        }
    }

    /// The members in the order of Java's set.
    fn in_order(&self) -> Vec<u32> {
        let mut buckets = Buckets::default();
        buckets.grow_to_hold(self.had as usize);
        let mut all: Vec<u32> = self.first.iter().chain(&self.others).copied().collect();
        all.sort_by_key(|place| buckets.of_hash(*place));
        all
    }
}

/// `Math.ceil` for numbers that are not negative.
fn ceil(number: f64) -> usize {
    let floor = number as usize;
    floor + usize::from((floor as f64) < number)
}
