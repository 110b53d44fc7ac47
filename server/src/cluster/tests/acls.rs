//! The limits on the work of one DeleteAcls.

use super::*;

const ANY: i8 = 1;

fn controller(topics: usize) -> Controller {
    let class = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let mut controller = Controller::new(&[&format!("authorizer.class.name={class}")]);
    let creations = (0..topics).map(|n| AclCreation {
        resource_type: 2,
        resource_name: format!("t{n}").into(),
        resource_pattern_type: 3,
        principal: "User:alice".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
    });
    let request = CreateAclsRequest { creations: creations.collect() };
    controller.decide(|view, _| create_acls(view, &request));
    assert_eq!(controller.image.acls().len(), topics);
    controller
}

/// A filter for the ACLs of one topic, or of all topics.
fn filter(topic: Option<&'static str>) -> DeleteAclsFilter<'static> {
    DeleteAclsFilter {
        resource_type_filter: 2,
        resource_name_filter: topic.map(Into::into),
        pattern_type_filter: 3,
        principal_filter: None,
        host_filter: None,
        operation: ANY,
        permission_type: ANY,
    }
}

/// The error and the number of matching ACLs of each filter.
fn delete(
    controller: &mut Controller,
    filters: Vec<DeleteAclsFilter<'static>>,
) -> Vec<(i16, usize)> {
    let request = DeleteAclsRequest { filters };
    let response = controller.decide(|view, _| delete_acls(view, &request));
    response.filter_results.iter().map(|it| (it.error_code, it.matching_acls.len())).collect()
}

#[test]
fn filters_that_together_match_or_look_at_too_much_are_refused() {
    let refused = (ErrorCode::InvalidRequest.code(), 0);
    let mut controller = controller(limits::ACLS_MAX);
    let all_twice = delete(&mut controller, vec![filter(None), filter(None)]);
    assert_eq!(all_twice, [refused; 2]);
    let of_others = DeleteAclsFilter { principal_filter: Some("User:bob".into()), ..filter(None) };
    let looks = limits::ACLS_LOOKED_AT_MAX / limits::ACLS_MAX;
    assert_eq!(delete(&mut controller, vec![of_others.clone(); looks]), vec![(0, 0); looks]);
    assert_eq!(delete(&mut controller, vec![of_others; looks + 1]), vec![refused; looks + 1]);
    assert_eq!(controller.image.acls().len(), limits::ACLS_MAX);

    let named = vec![filter(Some("t7")); 10 * looks];
    assert_eq!(delete(&mut controller, named), vec![(0, 1); 10 * looks], "a name is looked up");
    assert_eq!(delete(&mut controller, vec![filter(None)]), [(0, limits::ACLS_MAX - 1)]);
    assert!(controller.image.acls().is_empty());
}
