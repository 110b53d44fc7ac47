//! The table of APIs, and the error codes of answers.

use super::*;

#[test]
fn the_error_codes_of_an_answer_are_visited() {
    let partition = |error_code| OffsetCommitResponsePartition { partition_index: 7, error_code };
    let partitions = [0, 25, 0, 22, 25].map(partition).to_vec();
    let topics = vec![OffsetCommitResponseTopic { partitions, ..Default::default() }];
    let mut found = Vec::new();
    Response::from(OffsetCommitResponse { topics, ..Default::default() })
        .errors(&mut |code| found.push(code));
    assert_eq!(found, [25, 22, 25]);
    let whole = ListGroupsResponse { error_code: 15, ..Default::default() };
    Response::from(whole).errors(&mut |code| found.push(code));
    assert_eq!(found[3..], [15]);
}

#[test]
fn the_table_is_in_ascending_order_and_keys_round_trip() {
    assert!(ApiKey::ALL.is_sorted());
    for api in ApiKey::ALL {
        assert_eq!(ApiKey::from_key(*api as i16), Some(*api));
    }
    assert_eq!(ApiKey::from_key(4), None);
}

#[test]
fn produce_is_announced_from_zero_but_not_served() {
    assert_eq!(ApiKey::Produce.announced(), 0..=13);
    assert!(ApiKey::Produce.version(0).is_err());
}
