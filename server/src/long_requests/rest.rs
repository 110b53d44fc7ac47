//! The part of a long request that is not answered yet.

use super::slice::Slice;
use super::weight::{Sizes, items_at_once};
use std::fmt::Debug;

/// The unanswered part of a long request.
pub(super) trait Rest: Debug {
    /// Answers the next slice.
    fn answer_slice(&mut self, slice: &mut Slice<'_>);

    fn is_empty(&self) -> bool;

    /// The number of unanswered items. For each, at least an error will be added to the answer. 0
    /// if the request is not a list of items.
    fn items(&self) -> usize;

    /// The bytes that this part uses.
    fn held(&self) -> usize;
}

/// A request with a list of items, each of which could be answered without the others.
pub(super) trait ItemList: Debug {
    type Item: Debug;

    /// The weight of answering an item.
    fn weight(item: &Self::Item, sizes: &mut Sizes<'_>) -> usize;

    /// The bytes to which an item refers, apart from the size of the item itself.
    fn held(item: &Self::Item) -> usize;

    /// Answers some of the items, as if the request had only these.
    fn answer(&self, items: Vec<Self::Item>, slice: &mut Slice<'_>);
}

/// A request that cannot be split; it is answered in one slice.
pub(super) trait Single: Debug {
    fn answer(self, slice: &mut Slice<'_>);

    /// The bytes to which the request refers, apart from the size of the request itself.
    fn held(&self) -> usize;
}

/// The unanswered items of a request.
#[derive(Debug)]
pub(super) struct Items<L: ItemList> {
    /// The request without its items.
    request: L,
    /// The unanswered items, in reverse order: the last one is answered next.
    left: Vec<L::Item>,
}

impl<L: ItemList> Items<L> {
    pub(super) fn new(request: L, mut items: Vec<L::Item>) -> Self {
        items.reverse();
        Self { request, left: items }
    }
}

impl<L: ItemList> Rest for Items<L> {
    fn answer_slice(&mut self, slice: &mut Slice<'_>) {
        let mut sizes = slice.sizes();
        let weights = self.left.iter().rev().map(|item| L::weight(item, &mut sizes));
        let count = items_at_once(weights);
        let mut items = self.left.split_off(self.left.len().saturating_sub(count));
        items.reverse();
        slice.count(items.len(), self.left.is_empty());
        self.request.answer(items, slice);
    }

    fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    fn items(&self) -> usize {
        self.left.len()
    }

    fn held(&self) -> usize {
        let items = self.left.len() * size_of::<L::Item>();
        items + self.left.iter().map(L::held).sum::<usize>()
    }
}

/// A [`Single`] that is not answered yet, or None.
#[derive(Debug)]
pub(super) struct Whole<R: Single>(pub(super) Option<R>);

impl<R: Single> Rest for Whole<R> {
    fn answer_slice(&mut self, slice: &mut Slice<'_>) {
        slice.count(1, true);
        if let Some(request) = self.0.take() {
            request.answer(slice);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn items(&self) -> usize {
        usize::from(self.0.is_some())
    }

    fn held(&self) -> usize {
        self.0.as_ref().map_or(0, R::held)
    }
}
