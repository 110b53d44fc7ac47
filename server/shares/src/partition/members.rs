//! The members that hold records of a share partition, with small numbers for them.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// The number of a member in [`Members`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member(u32);

impl Member {
    pub(super) const NONE: Self = Self(0);
}

#[derive(Debug, Default)]
pub(super) struct Members {
    /// Member n is at index n - 1.
    names: Vec<Option<Box<str>>>,
    /// At this number of names, members that hold nothing are forgotten.
    sweep_at: usize,
}

const SWEEP_AT_LEAST: usize = 8;

impl Members {
    pub(super) fn find(&self, name: &str) -> Option<Member> {
        let at = self.names.iter().position(|it| it.as_deref() == Some(name))?;
        Some(Self::member(at))
    }

    /// The number of a member. `holding` are the members that hold records.
    pub(super) fn intern(&mut self, name: &str, holding: impl Iterator<Item = Member>) -> Member {
        if let Some(known) = self.find(name) {
            return known;
        }
        if self.names.len() >= self.sweep_at.max(SWEEP_AT_LEAST) {
            self.sweep(holding);
        }
        let free = self.names.iter().position(Option::is_none);
        let at = free.unwrap_or(self.names.len());
        if free.is_none() {
            self.names.push(None);
        }
        self.names[at] = Some(name.into());
        Self::member(at)
    }

    pub(super) fn name(&self, member: Member) -> Option<&str> {
        self.names.get((member.0 as usize).checked_sub(1)?)?.as_deref()
    }

    fn sweep(&mut self, holding: impl Iterator<Item = Member>) {
        let mut holds = alloc::vec![false; self.names.len() + 1];
        holding.for_each(|member| holds[member.0 as usize] = true);
        let mut held = 0;
        for (at, name) in self.names.iter_mut().enumerate() {
            if holds[at + 1] {
                held += 1;
            } else {
                *name = None;
            }
        }
        self.sweep_at = held * 2;
    }

    fn member(at: usize) -> Member {
        Member(u32::try_from(at + 1).unwrap_or(u32::MAX))
    }
}
