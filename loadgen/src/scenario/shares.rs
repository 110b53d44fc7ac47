//! Validates share groups. An error is one sentence about the first mistake.

use super::checks::{bounded, require};
use super::file::Group;
use super::values::Amount;

/// The ranges that Kafka allows for the configs of share groups.
const LIMITS: std::ops::RangeInclusive<u32> = 2..=10;
const LOCKS: std::ops::RangeInclusive<u128> = 15_000..=60_000;
const RECORDS: u32 = 1_000_000;

pub(super) fn validate(group: &Group) -> Result<(), String> {
    let plain = group.static_members.is_none() && group.assignor.0.is_empty() && !group.regex;
    require(plain, || "a share group has no static, assignor or regex".into())?;
    let loads = [group.commit, group.offset_fetch, group.heartbeat];
    require(loads.iter().all(Option::is_none), || {
        "members of a share group commit no offsets: commit, offset-fetch and heartbeat are for \
         others"
            .into()
    })?;
    let share = &group.share;
    require((1..=RECORDS).contains(&share.max_records), || {
        format!("max-records = {} is not from 1 to {RECORDS}", share.max_records)
    })?;
    bounded("takes", share.takes)?;
    bounded("slow-takes", share.slow_takes)?;
    require(!matches!(share.slow, Some(Amount::Count(_))), || {
        "slow is a share of the members, as in \"5%\"".into()
    })?;
    require(share.slow.is_some() == share.slow_takes.is_some(), || {
        "slow says how many members are slow, and slow-takes how slow: write both or none".into()
    })?;
    require(LIMITS.contains(&share.delivery_limit), || {
        format!("delivery-limit = {} is not from 2 to 10", share.delivery_limit)
    })?;
    require(LOCKS.contains(&share.lock.0.as_millis()), || {
        format!("lock = {} is not from 15 to 60 seconds", share.lock)
    })
}
