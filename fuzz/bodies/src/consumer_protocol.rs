//! The protocol metadata of consumers in JoinGroup and SyncGroup. Input: the bytes.

use crate::memory::within;
use muster_codec::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};

const GRANTED_PER_BYTE: usize = 32;

/// The newest version of subscriptions and assignments. Later versions are read as this version.
const NEWEST: i16 = 3;

pub fn run(input: &[u8]) {
    let granted = input.len() * GRANTED_PER_BYTE + 4096;
    let version = input.first_chunk().map_or(0, |it| i16::from_be_bytes(*it)).min(NEWEST);
    if let Ok(subscription) = within(granted, || ConsumerProtocolSubscription::read(input)) {
        let mut written = Vec::new();
        subscription.write(version, &mut written);
        if written.len() <= input.len() {
            assert_eq!(ConsumerProtocolSubscription::read(&written), Ok(subscription));
        }
    }
    if let Ok(assignment) = within(granted, || ConsumerProtocolAssignment::read(input)) {
        let mut written = Vec::new();
        assignment.write(version, &mut written);
        if written.len() <= input.len() {
            assert_eq!(ConsumerProtocolAssignment::read(&written), Ok(assignment));
        }
    }
}
