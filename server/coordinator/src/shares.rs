//! What each address may still create when little is left of something that all clients share: so
//! that one that creates as much as it can leaves room for the others.

use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv6Addr};

/// What an address may create at once, and how long it takes until it may create one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    pub burst: u32,
    pub every_ms: u32,
}

/// Addresses that are remembered at the same time. Beyond it those are forgotten first that have
/// created least.
const ADDRESSES_MAX: usize = 4_096;

/// The shares of all addresses.
#[derive(Debug, Clone)]
pub struct Shares {
    limits: ShareLimits,
    /// When each address will have its whole share again, in milliseconds; not in the past.
    whole_at: BTreeMap<Address, i64>,
}

/// None for a host that is no address.
type Address = Option<IpAddr>;

impl Shares {
    pub fn new(limits: ShareLimits) -> Self {
        Self { limits, whole_at: BTreeMap::new() }
    }

    /// Whether a client at `host`, which is `/` and its address, may create one more. What it creates
    /// while there is plenty left counts, and is never refused.
    pub fn admits(&mut self, now: i64, host: &str, is_short: bool) -> bool {
        let (address, every) = (address(host), i64::from(self.limits.every_ms));
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

/// Who has an address of IPv6 has all of its network.
fn address(host: &str) -> Address {
    match host.strip_prefix('/')?.parse().ok()? {
        IpAddr::V6(address) => {
            Some(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into())
        }
        address @ IpAddr::V4(_) => Some(address),
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
    fn each_address_has_a_share_of_its_own_that_comes_back() {
        let mut shares = Shares::new(LIMITS);
        assert_eq!(admitted(&mut shares, 5, "/10.0.0.1", true), 3);
        assert_eq!(admitted(&mut shares, 5, "/10.0.0.2", true), 3);
        assert_eq!(admitted(&mut shares, 14, "/10.0.0.1", true), 0);
        assert_eq!(admitted(&mut shares, 15, "/10.0.0.1", true), 1);
        assert_eq!(admitted(&mut shares, 1_000, "/10.0.0.1", true), 3, "and no more than that");
    }

    #[test]
    fn where_there_is_plenty_nothing_is_refused_but_counted() {
        let mut shares = Shares::new(LIMITS);
        assert_eq!(admitted(&mut shares, 0, "/10.0.0.1", false), 100);
        assert_eq!(admitted(&mut shares, 0, "/10.0.0.1", true), 0);
        assert_eq!(
            admitted(&mut shares, 30, "/10.0.0.1", true),
            3,
            "it is not held against it long"
        );
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
        assert_eq!(admitted(&mut shares, 0, "/10.0.0.1", true), 0, "who created most is known");
        assert!(shares.admits(1_000, "/10.1.1.1", true));
        assert_eq!(shares.whole_at.len(), 1, "who has its whole share again is forgotten");
    }
}
