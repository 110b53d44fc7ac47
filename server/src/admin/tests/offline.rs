//! Offline partitions in answers to requests for metadata.

use super::*;

#[test]
fn an_offline_partition_has_no_leader() {
    let mut cluster = Cluster::new(&[]);
    cluster.offline.set(1, [(T1, 1)].into());
    let request = asked(&[(Some("t1"), NO_ID)]);
    let offline = |cluster: &Cluster, error| {
        let (response, _) = metadata(&cluster.view(), 12, &request);
        let partitions = &response.topics[0].partitions;
        let facts = partitions.iter().map(|it| (code(it.error_code), it.leader_id));
        assert_eq!(facts.collect::<Vec<_>>(), [(ErrorCode::None, 0), error, (ErrorCode::None, 0)]);
        partitions[1].offline_replicas.clone()
    };
    assert_eq!(offline(&cluster, (ErrorCode::LeaderNotAvailable, -1)), [1]);
    let request_of_one = DescribeTopicPartitionsRequest {
        topics: vec![TopicRequest { name: "t1".into() }],
        response_partition_limit: 2000,
        cursor: None,
    };
    let described = describe_topic_partitions(&cluster.view(), &request_of_one);
    let partition = &described.topics[0].partitions[1];
    assert_eq!((partition.error_code, partition.leader_id), (0, -1));
    assert_eq!((&partition.isr_nodes[..], &partition.offline_replicas[..]), (&[1][..], &[1][..]));
    cluster.offline.set(1, [].into());
    assert!(offline(&cluster, (ErrorCode::None, 1)).is_empty());
}
