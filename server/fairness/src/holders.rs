//! Counts how much of a limit each address holds. For limits on things that are released again,
//! such as bytes or connections.

use crate::Address;
use alloc::collections::BTreeMap;
use hashbrown::HashMap;

/// The last eighth of a limit is its reserve. Once the rest is used up, each address has only a
/// share.
const RESERVE_PART: usize = 8;

/// How much of one limit the clients of each address hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holders {
    /// Contains no zero amounts.
    by_address: HashMap<Address, usize>,
    total: usize,
}

/// The reason why an address may not hold more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// The limit is used up.
    Limit,
    /// Only the reserve is left, and the address already holds its share.
    Share,
}

impl Exceeded {
    /// The reason, as the end of a sentence about a limit.
    pub fn words(self) -> &'static str {
        match self {
            Self::Limit => "the limit is reached",
            Self::Share => "little of the limit is left, and this address holds its share",
        }
    }
}

/// Like [`Holders::admit`]. The address holds the amount that `held` returns; `left` of the limit
/// is free.
///
/// # Errors
/// The address may not hold this much more.
pub fn admit(
    more: usize,
    left: usize,
    limit: usize,
    held: impl FnOnce() -> usize,
) -> Result<(), Exceeded> {
    if more == 0 {
        return Ok(());
    }
    let left = left.checked_sub(more).ok_or(Exceeded::Limit)?;
    let is_over = left < limit / RESERVE_PART && held().saturating_add(more) > left;
    if is_over { Err(Exceeded::Share) } else { Ok(()) }
}

impl Holders {
    /// Checks whether an address may take `more` of a limit. If at least an eighth of the limit is
    /// left afterwards, it may. Otherwise, the amount that the address would then hold must not
    /// exceed the amount that would be left for all others.
    ///
    /// # Errors
    /// The address may not hold this much more.
    pub fn admit(&self, address: Address, more: usize, limit: usize) -> Result<(), Exceeded> {
        admit(more, limit.saturating_sub(self.total), limit, || self.held_by(address))
    }

    /// Whether only the reserve of a limit is left.
    pub fn is_short(&self, limit: usize) -> bool {
        limit.saturating_sub(self.total) < limit / RESERVE_PART
    }

    pub fn take(&mut self, address: Address, amount: usize) {
        if amount > 0 {
            self.total += amount;
            *self.by_address.entry(address).or_default() += amount;
        }
    }

    /// Releases a part of the amount that the address holds.
    pub fn release(&mut self, address: Address, amount: usize) {
        let Some(held) = self.by_address.get_mut(&address) else {
            return debug_assert_eq!(amount, 0, "{address} releases what it does not hold");
        };
        debug_assert!(amount <= *held, "{address} releases {amount}, but holds {held}");
        let released = amount.min(*held);
        self.total -= released;
        *held -= released;
        if *held == 0 {
            self.by_address.remove(&address);
        }
    }

    pub fn held_by(&self, address: Address) -> usize {
        self.by_address.get(&address).copied().unwrap_or(0)
    }

    /// The amount that all addresses hold together.
    pub fn total(&self) -> usize {
        self.total
    }
}

/// Amounts that addresses have taken and released, but that [`Holders`] does not count yet. Used
/// where the `Holders` cannot be accessed; [`Self::report_to`] adds them later.
#[derive(Debug, Default)]
pub struct Moves(BTreeMap<Address, (usize, usize)>);

impl Moves {
    pub fn take(&mut self, address: Address, amount: usize) {
        if amount > 0 {
            self.0.entry(address).or_default().0 += amount;
        }
    }

    pub fn release(&mut self, address: Address, amount: usize) {
        if amount > 0 {
            self.0.entry(address).or_default().1 += amount;
        }
    }

    /// Applies the collected amounts to `holders`.
    pub fn report_to(&mut self, holders: &mut Holders) {
        while let Some((address, (taken, released))) = self.0.pop_first() {
            holders.take(address, taken);
            holders.release(address, released);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 80;

    fn address(number: u8) -> Address {
        Address::of(&alloc::format!("/10.0.0.{number}"))
    }

    /// Takes one at a time until the address may not hold more.
    fn fill(holders: &mut Holders, number: u8) -> (usize, Exceeded) {
        let mut taken = 0;
        loop {
            match holders.admit(address(number), 1, LIMIT) {
                Ok(()) => holders.take(address(number), 1),
                Err(exceeded) => return (taken, exceeded),
            }
            taken += 1;
        }
    }

    #[test]
    fn an_address_may_hold_all_but_the_last_eighth_and_each_further_one_half_of_the_rest() {
        let mut holders = Holders::default();
        assert_eq!(fill(&mut holders, 1), (70, Exceeded::Share));
        assert_eq!(fill(&mut holders, 2), (5, Exceeded::Share));
        assert_eq!(fill(&mut holders, 3), (2, Exceeded::Share));
        assert_eq!(fill(&mut holders, 4), (1, Exceeded::Share));
        assert_eq!(fill(&mut holders, 5), (1, Exceeded::Share));
        assert_eq!((holders.total(), fill(&mut holders, 6)), (79, (0, Exceeded::Share)));
        holders.take(address(6), 1);
        assert_eq!(holders.admit(address(7), 1, LIMIT), Err(Exceeded::Limit));
    }

    #[test]
    fn what_is_released_may_be_taken_again() {
        let mut holders = Holders::default();
        assert_eq!(fill(&mut holders, 1).0, 70);
        holders.release(address(1), 30);
        assert_eq!((holders.held_by(address(1)), holders.total()), (40, 40));
        assert_eq!(fill(&mut holders, 2).0, 30);
        holders.release(address(2), 30);
        assert_eq!(fill(&mut holders, 1).0, 30);
        holders.release(address(1), 70);
        assert_eq!(holders, Holders::default());
    }

    #[test]
    fn much_at_once_is_admitted_as_if_it_came_one_by_one() {
        let mut holders = Holders::default();
        assert_eq!(holders.admit(address(1), 71, LIMIT), Err(Exceeded::Share));
        assert_eq!(holders.admit(address(1), 70, LIMIT), Ok(()));
        holders.take(address(1), 70);
        assert_eq!(holders.admit(address(2), 6, LIMIT), Err(Exceeded::Share));
        assert_eq!(holders.admit(address(2), 5, LIMIT), Ok(()));
        for more in [11, usize::MAX] {
            assert_eq!(holders.admit(address(2), more, LIMIT), Err(Exceeded::Limit));
        }
    }

    #[test]
    fn a_small_limit_has_no_share() {
        let mut holders = Holders::default();
        assert_eq!(holders.admit(address(1), 7, 7), Ok(()));
        holders.take(address(1), 7);
        assert_eq!(holders.admit(address(2), 1, 7), Err(Exceeded::Limit));
        assert_eq!(holders.admit(address(2), 0, 5), Ok(()), "nothing is always there");
    }
}
