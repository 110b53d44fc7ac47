//! Random steps, compared with a model: a consumer sees exactly the acknowledged records.

use super::support::*;
use muster_codec::ErrorCode;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Produce { records: usize, bytes: usize },
    Fetch { at: u8, max_bytes: i32 },
    DeleteBefore { at: u8 },
    ListTime { at: u8 },
    Sweep,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..20usize, prop_oneof![Just(10), Just(3_000), Just(150_000)])
            .prop_map(|(records, bytes)| Step::Produce { records, bytes }),
        8 => (any::<u8>(), prop_oneof![Just(1), Just(10_000), Just(i32::MAX)])
            .prop_map(|(at, max_bytes)| Step::Fetch { at, max_bytes }),
        1 => any::<u8>().prop_map(|at| Step::DeleteBefore { at }),
        2 => any::<u8>().prop_map(|at| Step::ListTime { at }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Reopen),
    ]
}

/// The acknowledged batches by base offset, each with its last offset and timestamp.
#[derive(Default)]
struct Model {
    batches: BTreeMap<i64, (i64, i64)>,
    start: i64,
    end: i64,
}

impl Model {
    /// An offset in the log, or just outside it.
    fn offset(&self, at: u8) -> i64 {
        self.start - 1 + i64::from(at) * (self.end - self.start + 3) / 256
    }

    fn holds(&self, offset: i64) -> bool {
        (self.start..=self.end).contains(&offset)
    }

    fn from(&self, offset: i64) -> Vec<(i64, i64)> {
        let batches = self.batches.iter().map(|(base, (last, _))| (*base, *last));
        batches.filter(|(_, last)| *last >= offset).collect()
    }
}

fn run(steps: &[Step]) {
    let mut world = World::new();
    world.set("segment.bytes", "1048576");
    world.set("retention.bytes", "2500000");
    let mut model = Model::default();
    for step in steps {
        world.now += 10;
        world.wall.0 += 10;
        apply(&mut world, &mut model, step);
        assert!(world.replies.is_empty(), "each request is answered once");
    }
}

fn apply(world: &mut World, model: &mut Model, step: &Step) {
    match step {
        Step::Produce { records, bytes } => {
            let mut builder = muster_codec::record_batch::BatchBuilder::default();
            for _ in 0..*records {
                let value = vec![b'v'; bytes / records];
                builder.append(world.now, &(&b"k"[..], Some(&value[..])));
            }
            let base = world.append(0, builder.seal(0, -1));
            assert_eq!(base, model.end);
            model.end += *records as i64;
            model.batches.insert(base, (model.end - 1, world.now));
        }
        Step::Fetch { at, max_bytes } => {
            let offset = model.offset(*at);
            let mut body = fetch_request(0, &[(0, offset)]);
            body.max_bytes = *max_bytes;
            let request = world.start_fetch(&body);
            world.settle();
            let data = only(world.fetched(request).unwrap());
            if !model.holds(offset) {
                assert_eq!(error(data.error_code), ErrorCode::OffsetOutOfRange);
                return;
            }
            let (seen, all) = (ranges(&data), model.from(offset));
            assert_eq!(seen, all[..seen.len()]);
            assert_eq!(seen.is_empty(), all.is_empty(), "a fetch makes progress");
            assert_eq!((data.log_start_offset, data.high_watermark), (model.start, model.end));
        }
        Step::DeleteBefore { at } => {
            let offset = model.offset(*at);
            let (low, error) = world.delete_before(0, offset);
            // -1 means the high watermark.
            let offset = if offset == -1 { model.end } else { offset };
            if (0..=model.end).contains(&offset) {
                model.start = model.start.max(offset);
                assert_eq!((low, error), (model.start, ErrorCode::None));
            } else {
                assert_eq!(error, ErrorCode::OffsetOutOfRange);
            }
        }
        Step::ListTime { at } => {
            let time = NOW + i64::from(*at) * (world.now - NOW + 10) / 256;
            let later = model
                .batches
                .iter()
                .find(|(_, (last, batch_time))| *batch_time >= time && *last >= model.start);
            let expected = later.map_or(-1, |(base, _)| (*base).max(model.start));
            assert_eq!(world.list(0, time).offset, expected);
        }
        Step::Sweep => {
            world.pass(300_000);
            let start = world.list(0, -2).offset;
            assert!((model.start..=model.end).contains(&start));
            model.start = start;
        }
        Step::Reopen => world.reopen(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn consumers_see_what_was_acknowledged(steps in prop::collection::vec(step(), 1..80)) {
        run(&steps);
    }

    #[test]
    fn arbitrary_bytes_of_a_producer_do_no_harm(
        garbage in prop::collection::vec(any::<u8>(), 0..200),
        at in 0..130usize,
        fix in any::<bool>(),
    ) {
        let mut world = World::new();
        let mut bytes = batch(3);
        let at = at.min(bytes.len());
        let end = bytes.len().min(at + garbage.len());
        bytes[at..end].copy_from_slice(&garbage[..end - at]);
        if fix && at > 16 {
            bytes = patch(bytes, 0, &[0; 8]);
        }
        world.produce(0, &bytes);
        world.produce(0, &garbage);
        let end = world.append(0, &batch(1));
        prop_assert_eq!(ranges(&world.fetch(0, end)), [(end, end)]);
        let first = ranges(&world.fetch(0, 0));
        world.reopen();
        prop_assert_eq!(ranges(&world.fetch(0, 0)), first);
    }
}
