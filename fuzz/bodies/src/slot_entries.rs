//! Entries of a block in a replicated log.
//!
//! Properties: arbitrary bytes are refused, or are the encoding of what was read. Memory is
//! bounded.

use crate::memory::within;
use muster_storage::layout::{BLOCK_HEADER_BYTES, Block, BlockHeader, Format};
use muster_storage::slot_entry::Marker;
use muster_storage::{EntryKind, KeyRule, TopicRule, TopicRules, UNPARTITIONED};

const GRANTED_BYTES: usize = 64 << 10;
const SLOTS: u32 = 50;

const TOPICS: TopicRules = {
    const fn rule(number: u8) -> TopicRule {
        TopicRule { number, lingers: false, keys: KeyRule::SameKey }
    }
    TopicRules::new(&[rule(UNPARTITIONED), rule(0), rule(1), rule(2)])
};

/// Input: the entries of a block, after its header.
pub fn run(input: &[u8]) {
    let mut block = vec![0; BLOCK_HEADER_BYTES];
    block.extend(input);
    let header = BlockHeader {
        format: Format::Replicated,
        length: block.len() as u32,
        log_id: 1,
        segment: 1,
        first_position: 1,
        operations: 1,
        batches: 1,
    };
    header.write(&mut block);
    let Ok(block) = Block::read(&block) else { panic!("a block with a valid header") };
    within(GRANTED_BYTES, || {
        for entry in block.slot_entries() {
            let Ok(entry) = entry else { return };
            let mut written = Vec::new();
            entry.head.write(&mut written);
            assert!(input.windows(written.len()).any(|bytes| bytes == written), "other bytes");
            for is_merged in [false, true] {
                let is_valid = entry.check(TOPICS, SLOTS, is_merged).is_ok();
                if is_valid && entry.head.kind == EntryKind::Void {
                    check_marker(entry.body);
                }
            }
        }
        assert!(block.entries(TOPICS).count() <= input.len(), "batches without bytes");
    });
}

fn check_marker(body: &[u8]) {
    let Ok(marker) = Marker::read(body) else { panic!("a marker that was read before") };
    let mut written = Vec::new();
    marker.write(&mut written);
    assert_eq!(written, body);
}
