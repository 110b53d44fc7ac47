//! Limits how fast each address may use up a shared budget, such as the number of groups, once
//! little of it is left. So one address cannot use up the rest.

use crate::Address;
use alloc::collections::BTreeMap;

/// The number of things (of groups, for example) that an address may create at once, and the time
/// after which it may create another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    pub burst: u32,
    pub every_ms: u32,
}

/// The most addresses that are remembered. If there are more, the address is forgotten whose share
/// is whole again the soonest.
const ADDRESSES_MAX: usize = 4_096;

/// The shares of all addresses.
#[derive(Debug, Clone)]
pub struct Shares {
    limits: ShareLimits,
    /// For each address, the time (in milliseconds) at which it may use its whole share again. An
    /// address whose time is past may be removed.
    whole_at: BTreeMap<Address, i64>,
}

impl Shares {
    pub fn new(limits: ShareLimits) -> Self {
        Self { limits, whole_at: BTreeMap::new() }
    }

    /// Whether a client at `host` (a `/` and its address) may create another thing. Without
    /// `is_short` (little of the budget is left), the creation is only counted, and always allowed.
    pub fn admits(&mut self, now: i64, host: &str, is_short: bool) -> bool {
        let (address, every) = (Address::of(host), i64::from(self.limits.every_ms));
        let latest = now.saturating_add(every.saturating_mul(i64::from(self.limits.burst)));
        let whole_at = self.whole_at.get(&address).map_or(now, |at| *at.max(&now));
        let next = whole_at.saturating_add(every);
        if next > latest && is_short {
            return false;
        }
        self.remember(now, address, next.min(latest));
        true
    }

    fn remember(&mut self, now: i64, address: Address, whole_at: i64) {
        if self.whole_at.len() >= ADDRESSES_MAX && !self.whole_at.contains_key(&address) {
            self.whole_at.retain(|_, at| *at > now);
            let least =
                self.whole_at.iter().min_by_key(|(_, at)| **at).map(|(address, _)| *address);
            if let Some(least) = least.filter(|_| self.whole_at.len() >= ADDRESSES_MAX) {
                self.whole_at.remove(&least);
            }
        }
        self.whole_at.insert(address, whole_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    const LIMITS: ShareLimits = ShareLimits { burst: 3, every_ms: 10 };

    fn admitted(shares: &mut Shares, now: i64, host: &str, is_short: bool) -> usize {
        (0..100).filter(|_| shares.admits(now, host, is_short)).count()
    }

    #[test]
    fn each_address_has_its_own_share_that_is_restored() {
        let mut shares = Shares::new(LIMITS);
        assert_eq!(admitted(&mut shares, 5, "/10.0.0.1", true), 3);
        assert_eq!(admitted(&mut shares, 5, "/10.0.0.2", true), 3);
        assert_eq!(admitted(&mut shares, 14, "/10.0.0.1", true), 0);
        assert_eq!(admitted(&mut shares, 15, "/10.0.0.1", true), 1);
        assert_eq!(admitted(&mut shares, 1_000, "/10.0.0.1", true), 3, "and no more than that");
    }

    #[test]
    fn creations_count_but_are_not_refused_while_the_budget_is_not_short() {
        let mut shares = Shares::new(LIMITS);
        assert_eq!(admitted(&mut shares, 0, "/10.0.0.1", false), 100);
        assert_eq!(admitted(&mut shares, 0, "/10.0.0.1", true), 0);
        assert_eq!(admitted(&mut shares, 30, "/10.0.0.1", true), 3, "the share is restored");
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let mut shares = Shares::new(LIMITS);
        assert_eq!(admitted(&mut shares, 0, "/2001:db8:0:1::1", true), 3);
        assert_eq!(admitted(&mut shares, 0, "/2001:db8:0:1:ffff::2", true), 0);
        assert_eq!(admitted(&mut shares, 0, "/2001:db8:0:2::1", true), 3);
    }

    #[test]
    fn a_bounded_number_of_addresses_is_remembered() {
        let mut shares = Shares::new(LIMITS);
        assert_eq!(admitted(&mut shares, 0, "/10.0.0.1", true), 3);
        for number in 0..2 * ADDRESSES_MAX {
            let host = format!("/172.16.{}.{}", number / 256, number % 256);
            assert!(shares.admits(0, &host, true));
        }
        assert_eq!(shares.whole_at.len(), ADDRESSES_MAX);
        let admitted = admitted(&mut shares, 0, "/10.0.0.1", true);
        assert_eq!(admitted, 0, "the address that created most is remembered");
        assert!(shares.admits(1_000, "/10.1.1.1", true));
        assert_eq!(shares.whole_at.len(), 1, "addresses with a whole share are forgotten");
    }
}
