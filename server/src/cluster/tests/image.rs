//! The image of the cluster.

use crate::cluster::image::deleted_topic_record;
use crate::cluster::{ClusterImage, DeletedTopic, leader, state_slot};
use crate::config::{Config, TOPIC_RESOURCE};
use crate::placement::{Placement, Slot};
use crate::topics::InternalTopic;
use muster_codec::Uuid;
use muster_codec::records::{ClusterRecord, ConfigKey, ConfigValue, TopicKey, TopicValue};
use muster_coordinator::Topics;

fn topic(id: u8, name: &str, partitions: i32) -> ClusterRecord<'static> {
    let value = TopicValue { name: name.to_owned().into(), partitions, ..Default::default() };
    ClusterRecord::Topic(TopicKey { topic_id: Uuid([id; 16]) }, Some(value))
}

fn config(resource: &str, name: &str, value: Option<&str>) -> ClusterRecord<'static> {
    let key = ConfigKey {
        resource_type: TOPIC_RESOURCE,
        resource_name: resource.to_owned().into(),
        name: name.to_owned().into(),
    };
    ClusterRecord::Config(key, value.map(|value| ConfigValue { value: value.to_owned().into() }))
}

#[test]
fn a_clone_does_not_see_later_changes() {
    let mut image = ClusterImage::default();
    image.apply(&topic(1, "a", 1));
    let before = image.clone();
    image.apply(&topic(1, "a", 2));
    image.apply(&config("a", "retention.ms", Some("5")));
    assert_eq!((before.partitions("a"), image.partitions("a")), (Some(1), Some(2)));
    assert_eq!((before.partition_count(), image.partition_count()), (1, 2));
    assert_eq!(before.configs(TOPIC_RESOURCE, "a"), None);
    assert_eq!(image.configs(TOPIC_RESOURCE, "a").unwrap()["retention.ms"], "5");
}

#[test]
fn slots_outlast_growth_and_a_start() {
    let slots = |image: &ClusterImage| {
        let topic = image.topic("a").unwrap();
        [0, 1, 2, 3].map(|partition| topic.slot(partition))
    };
    let of = |partitions, slots| {
        let value = TopicValue { name: "a".into(), partitions, slots };
        ClusterRecord::Topic(TopicKey { topic_id: Uuid([1; 16]) }, Some(value))
    };
    let mut image = ClusterImage::default();
    image.apply(&of(2, Vec::new()));
    assert!(image.topic("a").unwrap().slots_with(Vec::new()).is_empty());
    let grown = image.topic("a").unwrap().slots_with(vec![1]);
    image.apply(&of(3, grown));
    assert_eq!(slots(&image), [None, None, Some(Slot(1)), None]);
    let unchanged = image.topic("a").unwrap().slots_with(Vec::new());
    image.apply(&of(4, unchanged));
    assert_eq!(slots(&image), [None, None, Some(Slot(1)), None]);
    let mut again = ClusterImage::default();
    for record in image.records(&Config::default()) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        let value = record.write_value(&mut value).then_some(&value[..]);
        again.apply(&ClusterRecord::read(&key, value).unwrap().unwrap());
    }
    assert_eq!(again.topic("a"), image.topic("a"));
}

#[test]
fn removed_topics_and_configs_leave_nothing_behind() {
    let mut image = ClusterImage::default();
    image.apply(&topic(1, "a.b", 1));
    image.apply(&config("a.b", "retention.ms", Some("5")));
    assert_eq!(image.colliding("a_b"), Some("a.b"));
    image.apply(&config("a.b", "retention.ms", None));
    image.apply(&ClusterRecord::Topic(TopicKey { topic_id: Uuid([1; 16]) }, None));
    assert_eq!((image.topic("a.b"), image.partition_count()), (None, 0));
    assert_eq!(image.colliding("a_b"), None);
    assert_eq!(image.configs(TOPIC_RESOURCE, "a.b"), None);
}

#[test]
fn a_deleted_topic_is_noted_until_its_tombstone() {
    let config = Config::default();
    let (id, gone) = (Uuid([1; 16]), TopicKey { topic_id: Uuid([1; 16]) });
    let mut image = ClusterImage::new(&config);
    image.apply(&topic(1, "a", 1));
    image.apply(&ClusterRecord::Topic(gone, None));
    image.apply(&deleted_topic_record(id, Some(("a", 7))));
    let version = image.version();
    let noted = DeletedTopic { name: "a".into(), deleted_at: 7, version };
    assert_eq!(image.deleted().collect::<Vec<_>>(), [(id, &noted)]);
    let mut again = ClusterImage::new(&config);
    image.records(&config).iter().for_each(|record| again.apply(record));
    assert_eq!(again.deleted().next().unwrap().1.deleted_at, 7);
    again.changed_since(&image);
    assert!(again.deleted().all(|(_, topic)| topic.version > version), "newer than all before");
    image.apply(&deleted_topic_record(id, None));
    assert_eq!((image.deleted().len(), image.version()), (0, version));
}

/// The leader of a cluster applies the operations of an entry one by one. Other nodes apply all of
/// an entry at once.
#[test]
fn versions_do_not_depend_on_how_an_entry_is_applied() {
    let removed = |id| ClusterRecord::Topic(TopicKey { topic_id: Uuid([id; 16]) }, None);
    let noted = |id, name| deleted_topic_record(Uuid([id; 16]), Some((name, 7)));
    let entries = [
        (2, vec![vec![topic(1, "a", 1)], vec![topic(2, "b", 1)], vec![topic(1, "a", 2)]]),
        (3, vec![vec![config("a", "retention.ms", Some("5"))]]),
        (4, vec![vec![removed(1), noted(1, "a")], vec![topic(3, "c", 1)], vec![removed(3)]]),
        (9, vec![vec![topic(2, "b", 4)]]),
    ];
    let config = Config::default();
    let (mut leader, mut follower) = (ClusterImage::new(&config), ClusterImage::new(&config));
    let mut versions = Vec::new();
    for (index, operations) in entries {
        operations.iter().for_each(|operation| leader.apply_at(index, operation));
        follower.apply_at(index, &operations.concat());
        assert_eq!(leader, follower, "after entry {index}");
        versions.push((leader.version(), leader.version_of_newest()));
    }
    assert_eq!(versions, [(2, 2), (2, 2), (4, 4), (9, 4)]);
}

/// A shard was loaded again, so the versions are higher than the positions.
#[test]
fn each_position_that_changes_topics_has_another_version() {
    let mut image = ClusterImage::default();
    image.apply_at(5, &[topic(1, "a", 1)]);
    let before = image.clone();
    image.changed_since(&before);
    let versions = [(6, 2), (6, 3), (7, 4)].map(|(position, partitions)| {
        image.apply_at(position, &[topic(1, "a", partitions)]);
        image.version()
    });
    assert_eq!(versions, [7, 7, 8]);
}

#[test]
fn internal_topics_exist_but_are_no_user_topics() {
    let image = ClusterImage::new(&Config::default());
    let mut configs = Vec::new();
    for internal in InternalTopic::seen() {
        let topic = image.topic_by_id(internal.id).unwrap();
        assert_eq!((&*topic.name, topic.partitions), (internal.name, 50));
        assert!(topic.is_internal());
        configs.push(image.configs(TOPIC_RESOURCE, internal.name).unwrap().len());
    }
    assert_eq!(configs, [3, 5, 5]);
    assert_eq!(image.topics().count(), 0);
    assert_eq!(image.all_topics_from("").count(), InternalTopic::seen().count());
}

#[test]
fn share_state_is_led_with_its_topic_partition() {
    let mut image = ClusterImage::new(&Config::default());
    let id = Uuid([9; 16]);
    let slots = vec![7, -1, 49];
    let value = TopicValue { name: "t".into(), partitions: 3, slots };
    image.apply(&ClusterRecord::Topic(TopicKey { topic_id: id }, Some(value)));
    let topic = image.topic_by_id(id).unwrap();
    let placement = Placement::of_equal(2, 50);
    let state = [0, 1, 2].map(|index| state_slot(topic, index, placement));
    assert_eq!(state, [Some(Slot(7)), Some(Slot(leader(topic, 1, placement))), Some(Slot(49))]);

    let placement = Placement::of_equal(64, 50);
    for index in 3..67 {
        let leader = leader(topic, index, placement);
        let state = state_slot(topic, index, placement);
        assert_eq!(state, (leader < 50).then_some(Slot(leader)), "of a partition without a slot");
    }
}
