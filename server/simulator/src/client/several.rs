//! A client with several groups, which belong to several slots. One request may name all groups.
//! The server then joins the answers of the slots. The part of the answer that concerns a group
//! must match the book of that group.

use super::{Committer, NextRequest, Surroundings};
use muster_codec::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest, OffsetFetchRequest,
};
use muster_codec::{Request, Response, Str};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Several {
    books: Vec<Committer>,
    doing: Doing,
    /// The shard that was asked, and the client's groups on this shard.
    asked: u32,
    of_shard: Vec<String>,
    /// The number of answers with groups of several slots.
    joined: u64,
    slots_asked: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// A request for the group with this number.
    One(usize),
    Fetch,
    Describe,
    Delete,
    List,
}

impl Several {
    pub(crate) fn new(books: Vec<Committer>) -> Self {
        let (doing, of_shard) = (Doing::List, Vec::new());
        Self { books, doing, asked: 0, of_shard, joined: 0, slots_asked: 0 }
    }

    pub(crate) fn books(&self) -> &[Committer] {
        &self.books
    }

    /// The number of answers with groups of several slots.
    pub(crate) fn joined(&self) -> u64 {
        self.joined
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        self.doing = match around.random.below(20) {
            0..=2 => Doing::Fetch,
            3 | 4 => Doing::Describe,
            5 | 6 => Doing::List,
            7 => Doing::Delete,
            _ => Doing::One(around.random.below(self.books.len() as u64) as usize),
        };
        if let Doing::One(number) = self.doing {
            return self.books[number].next_request(around);
        }
        let shard = around.random.below(u64::from(around.placement.shards)) as u32;
        self.choose(shard, around);
        let (version, request) = self.request(around);
        NextRequest { shard, version, request }
    }

    fn choose(&mut self, shard: u32, around: &Surroundings<'_>) {
        let groups = self.books.iter().map(|book| book.group().to_owned());
        let of_shard = groups.filter(|it| around.placement.group_shard(it) == shard);
        self.of_shard = of_shard.collect();
        self.asked = shard;
        let mut slots: Vec<_> =
            self.of_shard.iter().map(|it| around.placement.group_slot(it).0).collect();
        slots.sort_unstable();
        slots.dedup();
        self.slots_asked = slots.len();
    }

    fn request(&mut self, around: &mut Surroundings<'_>) -> (i16, Request<'static>) {
        let random = &mut *around.random;
        let names = |books: &[Committer]| -> Vec<Str<'static>> {
            books.iter().map(|book| book.group().to_owned().into()).collect()
        };
        match self.doing {
            Doing::Fetch => {
                let groups = self.books.iter().map(Committer::fetched_group).collect();
                let request = OffsetFetchRequest { groups, ..Default::default() };
                (random.between(8, 9) as i16, request.into())
            }
            Doing::Describe => {
                let groups = names(&self.books);
                let request = DescribeGroupsRequest { groups, ..Default::default() };
                (random.below(7) as i16, request.into())
            }
            Doing::Delete => {
                // The shard deletes only those groups that it has. It refuses the others, which
                // stay.
                self.books.iter_mut().for_each(Committer::begin_deletion);
                let groups_names = names(&self.books);
                (random.below(3) as i16, DeleteGroupsRequest { groups_names }.into())
            }
            Doing::One(_) | Doing::List => {
                (random.below(6) as i16, ListGroupsRequest::default().into())
            }
        }
    }

    /// Forgets which groups the shard has. It may have other groups by now, so a list of its groups
    /// cannot be checked.
    pub(super) fn groups_moved(&mut self) {
        self.of_shard.clear();
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let Some(response) = response else {
            self.books.iter_mut().try_for_each(|book| book.answered(None))?;
            return Ok(());
        };
        let slots = self.slots_asked;
        match (self.doing, response) {
            (Doing::One(number), response) => return self.books[number].answered(Some(response)),
            (Doing::Fetch, Response::OffsetFetch(response)) => {
                let parts = response.groups.iter().map(|group| (&*group.group_id, group));
                self.each(parts, Committer::group_fetched)?;
            }
            (Doing::Delete, Response::DeleteGroups(response)) => {
                let parts = response.results.iter().map(|it| (&*it.group_id, it.error_code));
                self.each(parts, Committer::group_deleted)?;
            }
            (Doing::Describe, Response::DescribeGroups(response)) => {
                let parts = response.groups.iter().map(|group| (&*group.group_id, group));
                self.each(parts, |book, group| book.described(group))?;
            }
            (Doing::List, Response::ListGroups(response)) => {
                let mut listed: Vec<_> = response.groups.iter().map(|it| &*it.group_id).collect();
                if response.error_code != 0 {
                    return Ok(());
                }
                listed.sort_unstable();
                self.listed(&listed)?;
            }
            _ => return Err("an answer of another kind".to_owned()),
        }
        self.joined += u64::from(slots > 1);
        Ok(())
    }

    /// Passes each part of an answer to the book of its group.
    fn each<'p, P>(
        &mut self,
        parts: impl Iterator<Item = (&'p str, P)>,
        take: impl Fn(&mut Committer, P) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut left: BTreeMap<_, _> =
            self.books.iter_mut().map(|book| (book.group().to_owned(), book)).collect();
        for (group, part) in parts {
            let book =
                left.remove(group).ok_or(format!("{group} is answered twice, or unasked"))?;
            take(book, part)?;
        }
        match left.into_keys().next() {
            None => Ok(()),
            Some(group) => Err(format!("the answer has no part for {group}")),
        }
    }

    /// Checks that each group of the shard is listed once, or not at all if it may be gone.
    fn listed(&self, listed: &[&str]) -> Result<(), String> {
        for book in self.books.iter().filter(|it| self.of_shard.iter().any(|of| of == it.group())) {
            let count = listed.iter().filter(|group| **group == book.group()).count();
            if count > 1 || count == 0 && !book.may_be_gone() {
                return Err(format!("{} is listed {count} times by {}", book.group(), self.asked));
            }
        }
        Ok(())
    }
}
