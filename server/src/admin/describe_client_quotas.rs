//! DescribeClientQuotas: there are none. Kafka's tools ask for them before they describe users.

use muster_codec::messages::DescribeClientQuotasResponse;

pub fn describe_client_quotas() -> DescribeClientQuotasResponse<'static> {
    DescribeClientQuotasResponse { error_message: None, ..Default::default() }
}
