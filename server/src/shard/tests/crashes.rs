//! Crashes beside a snapshot that lose the operations of the log that were not flushed.

use super::world::{Random, World, commit};
use crate::cluster::GROUP_RESOURCE;
use muster_codec::records::{ClusterRecord, ConfigKey, ConfigValue, GroupMetadataKey, GroupRecord};
use muster_storage::snapshot::SNAPSHOT_FILE_NAME;
use std::collections::BTreeMap;

const RUNS: u64 = 200;
const CONFIG: &str = "consumer.session.timeout.ms";
/// The lowest permitted value of the config in this test.
const VALUE_MIN: i64 = 45_000;

/// The kinds of state in a snapshot: a group with an offset, a transactional id, a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Group,
    Id,
    Config,
}

const KINDS: [Kind; 3] = [Kind::Group, Kind::Id, Kind::Config];

/// The values of the kinds that exist.
type Contents = BTreeMap<Kind, i64>;

/// A snapshot has parts (groups, transactional ids, the cluster), which may show the state at
/// different positions of the log. If the log ends before the latest of these positions, the
/// snapshot must not be used, even if the part with the latest position is empty.
#[test]
fn a_start_finds_what_the_log_has_whatever_changed_while_a_snapshot_was_written() {
    let (mut random, mut snapshots, mut losses) = (Random(1), 0, 0);
    for run in 0..RUNS {
        let mut world = World::new(&["metadata.log.max.record.bytes.between.snapshots=1"]);
        let mut history = vec![(accepted(&world), Contents::new())];
        // Most runs have only one kind of state, so a snapshot has no later part of another kind.
        let kinds = KINDS.get(run as usize % 4).map_or(&KINDS[..], std::slice::from_ref);
        change_all(&mut world, kinds, &mut history, &mut random);
        snapshots += u64::from(world.path(SNAPSHOT_FILE_NAME).exists());
        world.restart();
        let found = (accepted(&world), contents(&mut world));
        losses += u64::from(history.last() != Some(&found));
        assert!(history.contains(&found), "run {run}: {found:?} is not of {history:?}");
    }
    assert!(snapshots > RUNS / 2 && losses > RUNS / 2, "{snapshots} snapshots, {losses} losses");
}

/// Adds and removes state of these kinds. For each position of the log, adds the contents at this
/// position to `history`. The last changes are not flushed.
fn change_all(
    world: &mut World,
    kinds: &[Kind],
    history: &mut Vec<(u64, Contents)>,
    random: &mut Random,
) {
    let (flushed, lost) = (3 + random.below(6), 1 + random.below(4) / 3);
    for change in 0..flushed + lost {
        world.hold_log(change >= flushed);
        let mut contents = history.last().unwrap().1.clone();
        let kind = kinds[random.below(kinds.len() as u64) as usize];
        let value = contents.remove(&kind).is_none().then(|| VALUE_MIN + random.below(9) as i64);
        write(world, kind, value);
        contents.extend(value.map(|it| (kind, it)));
        history.push((accepted(world), contents));
        // Sometimes a millisecond passes. If none has passed since the previous snapshot, the
        // slices of the next snapshot are written later.
        world.pass(random.below(8) as i64 / 7);
    }
    world.pass(2);
}

fn write(world: &mut World, kind: Kind, value: Option<i64>) {
    match kind {
        Kind::Group if value.is_some() => world.append(&commit(0, 0, value)),
        Kind::Group => world.append_all(&[commit(0, 0, None), no_group()]),
        Kind::Id => world.append_id(0, value.map(|it| (it - VALUE_MIN) as i16)),
        Kind::Config => {
            world.shard.write_records(vec![config(value)]);
            world.turn();
        }
    }
}

fn no_group() -> GroupRecord<'static> {
    GroupRecord::GroupMetadata(GroupMetadataKey { group: "g0".into() }, None)
}

fn config(value: Option<i64>) -> ClusterRecord<'static> {
    let (resource_type, resource_name) = (GROUP_RESOURCE, "g0".into());
    let key = ConfigKey { resource_type, resource_name, name: CONFIG.into() };
    ClusterRecord::Config(key, value.map(|it| ConfigValue { value: it.to_string().into() }))
}

fn accepted(world: &World) -> u64 {
    world.shard.runtime.log().progress().accepted()
}

fn contents(world: &mut World) -> Contents {
    KINDS.into_iter().filter_map(|kind| Some((kind, value(world, kind)?))).collect()
}

fn value(world: &mut World, kind: Kind) -> Option<i64> {
    match kind {
        Kind::Group => world.committed(0, 0),
        Kind::Id => {
            let ids = world.shard.inspect().transactional_ids().unwrap();
            let id = ids.first()?.value.as_ref()?;
            Some(VALUE_MIN + i64::from(id.producer_epoch))
        }
        Kind::Config => {
            let configs = world.shard.broker.image().configs(GROUP_RESOURCE, "g0")?;
            configs.get(CONFIG).map(|it| it.parse().unwrap())
        }
    }
}
