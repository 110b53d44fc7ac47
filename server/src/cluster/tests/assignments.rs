//! The slots of partitions: assigned by the request, or by the default placement.

use super::*;
use ErrorCode::InvalidReplicaAssignment;
use std::ops::Range;

#[test]
fn partitions_are_where_they_were_assigned() {
    let mut controller = Controller::new(&[]);
    let leaders = |controller: &Controller, shards| -> Vec<u32> {
        let topic = controller.image.topic("c").unwrap();
        let placement = Placement::of_equal(shards, 50);
        (0..topic.partitions).map(|index| leader(topic, index, placement)).collect()
    };
    let created = controller.create(&with_assignment(&[(2, &[1]), (0, &[1]), (1, &[0])])).unwrap();
    assert_eq!((created.num_partitions, created.replication_factor), (3, 1));
    assert_eq!(leaders(&controller, 2), [1, 0, 1]);
    assert_eq!(leaders(&controller, 1), [0, 0, 0], "with fewer shards than before");
    controller.grow_all(&[("c", 5)], None).remove(0).unwrap();
    let by_formula = leaders(&controller, 2);
    assert_eq!(by_formula[..3], [1, 0, 1]);
    controller.grow_all(&[("c", 7)], Some(&[&[1], &[1]])).remove(0).unwrap();
    assert_eq!(leaders(&controller, 2), [&by_formula[..], &[1, 1]].concat());
}

#[test]
fn a_partition_is_not_assigned_to_a_broker_without_a_slot() {
    let mut controller = Controller::new(&[]);
    controller.placement = Placement::of_equal(64, 50);
    let words = "The manual partition assignment includes broker 50, which cannot lead a \
                 partition: muster has more brokers than __consumer_offsets has partitions.";
    let refusal = (InvalidReplicaAssignment, words.to_owned());
    assert_eq!(controller.create(&with_assignment(&[(0, &[50])])).unwrap_err(), refusal);
    controller.create(&with_assignment(&[(0, &[49])])).unwrap();
    let grown = controller.grow_all(&[("c", 2)], Some(&[&[50]])).remove(0);
    assert_eq!(grown.unwrap_err(), refusal);
    controller.create(&CreatableTopic { num_partitions: 200, ..topic("d") }).unwrap();
}

#[test]
fn the_record_of_a_topic_names_the_slot_of_each_partition() {
    let mut controller = Controller::new(&[]);
    let many = CreatableTopic { num_partitions: 9, ..topic("c") };
    let created = controller.create(&many).unwrap();
    let slots = |controller: &Controller| -> Vec<_> {
        let topic = controller.image.topic("c").unwrap();
        (0..topic.partitions).map(|index| topic.slot(index)).collect()
    };
    let placement = Placement::of_equal(2, 50);
    let of = |partitions: Range<i32>| {
        partitions.map(|it| Some(placement.partition_slot(created.topic_id, it)))
    };
    assert_eq!(slots(&controller), of(0..9).collect::<Vec<_>>());
    controller.grow_all(&[("c", 60)], None).remove(0).unwrap();
    assert_eq!(slots(&controller), of(0..60).collect::<Vec<_>>());

    let value = TopicValue { name: "old".into(), partitions: 2, ..Default::default() };
    let old = ClusterRecord::Topic(TopicKey { topic_id: Uuid([9; 16]) }, Some(value));
    controller.image.apply(&old);
    controller.grow_all(&[("old", 3)], None).remove(0).unwrap();
    let topic = controller.image.topic("old").unwrap();
    assert_eq!([0, 1].map(|index| topic.slot(index)), [None; 2], "as before");
    assert_eq!(topic.slot(2), Some(placement.partition_slot(topic.id, 2)));
}
