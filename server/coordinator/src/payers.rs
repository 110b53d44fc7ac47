//! The address that pays for the members of a group: their bytes are counted against its share of
//! the limit on the bytes of all members. It is the client address whose request enlarged the group
//! last.
//!
//! A group has only one payer. So the account takes two bytes per group, and each change takes
//! constant time, even in a large group. An address that enlarges a group takes over all bytes of
//! the group, and its share must suffice for them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_fairness::{Address, Moves};

/// The number of a payer. 0 is an unknown payer, as after a load.
pub(crate) type PayerNumber = u16;

/// The payers of the groups of a slot.
#[derive(Debug, Default)]
pub(crate) struct Payers {
    /// The address of the client that added to a group last.
    pub(crate) adds: Address,
    /// The known addresses, each with the number of groups that it pays for. The index of a
    /// payer is its number minus 1.
    known: Vec<(Address, u32)>,
    numbers: BTreeMap<Address, PayerNumber>,
    free: Vec<PayerNumber>,
    /// The bytes that each address took or released since the last report to the budget.
    pub(crate) moves: Moves,
}

impl Payers {
    pub(crate) fn address(&self, number: PayerNumber) -> Address {
        let known = usize::from(number).checked_sub(1).and_then(|at| self.known.get(at));
        known.map_or_else(Address::default, |(address, _)| *address)
    }

    /// Accounts for a group whose bytes changed from `before` to `after`. Returns its new payer.
    pub(crate) fn changed(
        &mut self,
        payer: PayerNumber,
        before: usize,
        after: usize,
    ) -> PayerNumber {
        if after <= before {
            self.moves.release(self.address(payer), before - after);
            return if after == 0 { self.release(payer) } else { payer };
        }
        if before > 0 && self.address(payer) == self.adds {
            self.moves.take(self.adds, after - before);
            return payer;
        }
        self.moves.release(self.address(payer), before);
        self.release(payer);
        let payer = self.number(self.adds);
        self.moves.take(self.address(payer), after);
        payer
    }

    /// Increments the number of groups of an address. Returns the number of this payer, or 0 if
    /// there are too many addresses.
    fn number(&mut self, address: Address) -> PayerNumber {
        if address == Address::default() {
            return 0;
        }
        if let Some(number) = self.numbers.get(&address).copied() {
            self.known[usize::from(number) - 1].1 += 1;
            return number;
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.known[usize::from(number) - 1] = (address, 1);
                number
            }
            None => {
                let Ok(number) = PayerNumber::try_from(self.known.len() + 1) else { return 0 };
                self.known.push((address, 1));
                number
            }
        };
        self.numbers.insert(address, number);
        number
    }

    /// Decrements the number of groups of a payer. Returns 0, the number of an unknown payer.
    fn release(&mut self, number: PayerNumber) -> PayerNumber {
        if let Some(place) = usize::from(number).checked_sub(1)
            && let Some((address, groups)) = self.known.get_mut(place)
        {
            *groups -= 1;
            if *groups == 0 {
                self.numbers.remove(address);
                self.free.push(number);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_fairness::Holders;

    fn held(payers: &mut Payers, holders: &mut Holders) -> [usize; 3] {
        payers.moves.report_to(holders);
        ["", "/10.0.0.1", "/10.0.0.2"].map(|host| holders.held_by(Address::of(host)))
    }

    #[test]
    fn the_address_that_adds_to_a_group_takes_it_over() {
        let (mut payers, mut holders) = (Payers::default(), Holders::default());
        let loaded = payers.changed(0, 0, 100);
        assert_eq!((loaded, held(&mut payers, &mut holders)), (0, [100, 0, 0]));
        payers.adds = Address::of("/10.0.0.1");
        let one = payers.changed(0, 0, 10);
        assert_eq!(payers.changed(one, 10, 15), one);
        assert_eq!(held(&mut payers, &mut holders), [100, 15, 0]);
        payers.adds = Address::of("/10.0.0.2");
        assert_eq!(payers.changed(one, 15, 12), one, "a member has left");
        assert_eq!(held(&mut payers, &mut holders), [100, 12, 0]);
        let two = payers.changed(one, 12, 13);
        assert_eq!(payers.changed(loaded, 100, 101), two);
        assert_eq!(held(&mut payers, &mut holders), [0, 0, 114]);
        assert_eq!(payers.changed(two, 101, 0), 0);
        assert_eq!(payers.changed(two, 13, 0), 0);
        assert_eq!(held(&mut payers, &mut holders), [0; 3]);
        assert_eq!(holders, Holders::default());
        assert!(payers.numbers.is_empty() && payers.free.len() == payers.known.len());
    }

    #[test]
    fn numbers_of_payers_without_groups_are_used_again() {
        let (mut payers, mut holders) = (Payers::default(), Holders::default());
        for host in 0..100_000_u32 {
            let (high, low) = (host >> 8 & 255, host & 255);
            payers.adds = Address::of(&alloc::format!("/10.{high}.{low}.1"));
            let payer = payers.changed(0, 0, 7);
            assert_eq!((payer, payers.address(payer)), (1, payers.adds));
            payers.changed(payer, 7, 0);
            payers.moves.report_to(&mut holders);
        }
        assert_eq!(holders, Holders::default());
    }
}
