//! An index of rows by name. It reads them in place, from the bytes of a file. A look-up does not
//! verify all rows that it reads, but those that prove its result.

use crate::SnapshotBytes;
use crate::pages::Pages;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

/// The fixed-size part of an index entry.
pub trait Row: Sized {
    /// The size of a row in bytes.
    const BYTES: usize;

    /// Decodes a row; None if the bytes are not a valid row.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// The byte position of the row's id within the names, and the lengths in bytes of the id and
    /// of the text that follows it.
    fn name(&self) -> (u64, usize, usize);
}

/// An entry of an index: a row with its id and text.
#[derive(Debug, Clone, Copy)]
pub struct Found<'i, R> {
    pub id: &'i str,
    /// The text after the id.
    pub text: &'i str,
    pub row: R,
}

/// An index in a file: the rows, sorted by id, and then their names. The caller may have other
/// bytes before the rows. After `close` the index has no file.
pub struct Index<R> {
    bytes: Option<SnapshotBytes>,
    /// The place of the index in the file, in bytes. `pages` has the checksums that verify each
    /// look-up.
    place: Range<usize>,
    pages: Pages,
    /// The places of rows and names within the index, in bytes.
    rows: Range<usize>,
    names: Range<usize>,
    /// Whether a look-up found bytes that differ from the written ones.
    is_damaged: Cell<bool>,
    row: PhantomData<R>,
}

impl<R> Default for Index<R> {
    fn default() -> Self {
        Self {
            bytes: None,
            place: 0..0,
            pages: Pages::default(),
            rows: 0..0,
            names: 0..0,
            is_damaged: Cell::new(false),
            row: PhantomData,
        }
    }
}

impl<R> fmt::Debug for Index<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("place", &self.place).finish_non_exhaustive()
    }
}

impl<R: Row> Index<R> {
    /// The index at `place` of the file. Its `count` rows begin at `rows_at` within the index; the
    /// names follow them. None if the index is too short or not within the file.
    pub fn new(
        bytes: SnapshotBytes,
        place: Range<usize>,
        pages: Pages,
        rows_at: usize,
        count: usize,
    ) -> Option<Self> {
        let len = (*bytes).as_ref().get(place.clone())?.len();
        let rows = rows_at..count.checked_mul(R::BYTES)?.checked_add(rows_at)?;
        let names = rows.end..len;
        if rows.end > len {
            return None;
        }
        let (bytes, is_damaged) = (Some(bytes), Cell::new(false));
        Some(Self { bytes, place, pages, rows, names, is_damaged, row: PhantomData })
    }

    /// Whether a look-up found damage. From then on the results of look-ups are not reliable.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.get()
    }

    /// Whether the file was dropped.
    pub fn is_closed(&self) -> bool {
        self.bytes.is_none()
    }

    /// Drops the file.
    pub fn close(&mut self) {
        (self.bytes, self.pages) = (None, Pages::default());
    }

    /// The bytes of the file.
    pub fn file(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| (**bytes).as_ref())
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len() / R::BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The size of all names in bytes.
    pub fn names_len(&self) -> usize {
        self.names.len()
    }

    /// Returns verified bytes of the index. None if they are missing or damaged; damage is
    /// remembered.
    pub fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.noted(self.verified(range))
    }

    /// Returns the entry in row `number`. None past the end, or if the entry is damaged; damage is
    /// remembered.
    pub fn get(&self, number: usize) -> Option<Found<'_, R>> {
        let row = self.row(number)?;
        self.noted(self.found(row))
    }

    /// Like [`Self::get`], without the name.
    pub fn row(&self, number: usize) -> Option<R> {
        let at = self.rows.start + number * R::BYTES;
        if self.is_closed() || at >= self.rows.end {
            return None;
        }
        self.noted(self.verified(at..at + R::BYTES).and_then(R::read))
    }

    /// The number of the row with this id.
    pub fn number(&self, id: &str) -> Option<usize> {
        let number = self.search(|other| other < id);
        self.get(number).is_some_and(|it| it.id == id).then_some(number)
    }

    /// The number of leading ids for which `is_before` holds, found by a binary search. The ids are
    /// sorted, so the last id that is before and the first that is not prove the result. Only these
    /// two rows are verified; other rows that the search read may be damaged.
    pub fn search(&self, is_before: impl Fn(&str) -> bool) -> usize {
        if self.is_closed() {
            return 0;
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.unverified_id(middle).is_some_and(&is_before) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let is_proved = low.checked_sub(1).is_none_or(|last| self.is_so(last, &is_before))
            && self.is_so(low, |id| !is_before(id));
        self.noted(is_proved.then_some(()));
        low
    }

    /// Whether the condition holds for the id in row `number`; true past the end.
    fn is_so(&self, number: usize, condition: impl Fn(&str) -> bool) -> bool {
        number >= self.len() || self.get(number).is_some_and(|found| condition(found.id))
    }

    fn unverified_id(&self, number: usize) -> Option<&str> {
        let index = self.file().get(self.place.clone())?;
        let at = self.rows.start + number * R::BYTES;
        let row = R::read(index.get(at..at + R::BYTES)?)?;
        let id = index.get(self.name_of(&row)?)?.get(..row.name().1)?;
        core::str::from_utf8(id).ok()
    }

    fn found(&self, row: R) -> Option<Found<'_, R>> {
        let name = self.verified(self.name_of(&row)?)?;
        let (id, text) = name.split_at_checked(row.name().1)?;
        let (id, text) = (core::str::from_utf8(id).ok()?, core::str::from_utf8(text).ok()?);
        Some(Found { id, text, row })
    }

    /// The place of the row's name in the index, in bytes.
    fn name_of(&self, row: &R) -> Option<Range<usize>> {
        let (at, id_len, text_len) = row.name();
        let at = self.names.start.checked_add(usize::try_from(at).ok()?)?;
        Some(at..at.checked_add(id_len.checked_add(text_len)?)?)
    }

    fn verified(&self, range: Range<usize>) -> Option<&[u8]> {
        self.pages.get(self.file().get(self.place.clone())?, range)
    }

    fn noted<T>(&self, found: Option<T>) -> Option<T> {
        self.is_damaged.set(self.is_damaged.get() || found.is_none());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PageSums;
    use alloc::format;
    use alloc::string::String;
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    const COUNT: usize = 300;

    /// A row that contains only the place of its name.
    #[derive(Debug, Clone, Copy)]
    struct At(u16);

    impl Row for At {
        const BYTES: usize = 2;

        fn read(bytes: &[u8]) -> Option<Self> {
            bytes.try_into().ok().map(u16::from_be_bytes).map(Self)
        }

        fn name(&self) -> (u64, usize, usize) {
            (self.0.into(), 4, 1)
        }
    }

    fn id(number: usize) -> String {
        format!("{number:04}")
    }

    /// Nine bytes before the rows, the rows of the even numbers, and their names.
    fn bytes() -> Vec<u8> {
        let mut bytes = Vec::from([9; 9]);
        (0..COUNT).for_each(|number| bytes.extend((5 * number as u16).to_be_bytes()));
        (0..COUNT).for_each(|number| bytes.extend(format!("{}t", id(2 * number)).as_bytes()));
        bytes
    }

    fn index(bytes: Vec<u8>) -> Option<Index<At>> {
        let mut sums = PageSums::default();
        sums.add(&self::bytes());
        let place = 0..bytes.len();
        Index::new(Arc::new(bytes), place, Pages::read(&sums.to_bytes()), 9, COUNT)
    }

    #[test]
    fn ids_are_found_by_name_and_by_number() {
        let index = index(bytes()).unwrap();
        assert_eq!((index.len(), index.names_len()), (COUNT, 5 * COUNT));
        for number in 0..COUNT {
            assert_eq!(index.number(&id(2 * number)), Some(number));
            assert_eq!(index.number(&id(2 * number + 1)), None);
            let found = index.get(number).unwrap();
            assert_eq!((found.id, found.text), (&*id(2 * number), "t"));
        }
        assert!(index.get(COUNT).is_none() && !index.is_damaged());
        assert!(Index::<At>::default().get(0).is_none());
    }

    #[test]
    fn changed_bytes_are_noted() {
        let mut changed = bytes();
        changed[9] ^= 1;
        let index = index(changed).unwrap();
        assert!(index.get(COUNT - 1).is_some() && !index.is_damaged());
        assert!(index.get(0).is_none() && index.is_damaged());
    }

    #[test]
    fn a_closed_index_is_not_damaged() {
        let mut index = index(bytes()).unwrap();
        index.close();
        assert_eq!((index.search(|_| true), index.number("0002")), (0, None));
        assert!(!index.is_damaged());
    }

    /// Damages each byte in turn. After that a look-up must find the id, or report the index as
    /// damaged, since it may have missed the id.
    #[test]
    fn no_look_up_is_misled_by_changed_bytes() {
        let whole = bytes();
        for at in 9..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let index = index(changed).unwrap();
            for number in [0, COUNT / 3, COUNT - 1] {
                let id = id(2 * number);
                assert!(index.number(&id) == Some(number) || index.is_damaged(), "byte {at}");
            }
            assert!(index.number("0301").is_none());
        }
    }

    #[test]
    fn rows_that_are_not_in_the_file_are_refused() {
        assert!(index(bytes()[..9 + 2 * COUNT - 1].to_vec()).is_none());
        let place = 0..usize::MAX;
        assert!(Index::<At>::new(Arc::new([]), place, Pages::default(), 0, 0).is_none());
        let huge = Index::<At>::new(Arc::new([]), 0..0, Pages::default(), 0, usize::MAX);
        assert!(huge.is_none());
    }
}
