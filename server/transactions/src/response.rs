//! The requests that a transaction coordinator serves, and their responses.

use muster_codec::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, DescribeTransactionsRequest, DescribeTransactionsResponse,
    EndTxnRequest, EndTxnResponse, InitProducerIdRequest, InitProducerIdResponse,
    ListTransactionsRequest, ListTransactionsResponse,
};

macro_rules! bodies {
    ($($name:ident($request:ident, $response:ident $(<$st:lifetime>)?),)*) => {
        /// A request to a transaction coordinator.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Request<'a> {
            $($name($request<'a>),)*
        }

        /// The response of a transaction coordinator.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Response {
            $($name($response $(<$st>)?),)*
        }

        $(
            impl<'a> From<$request<'a>> for Request<'a> {
                fn from(request: $request<'a>) -> Self {
                    Self::$name(request)
                }
            }

            impl From<$response $(<$st>)?> for Response {
                fn from(response: $response $(<$st>)?) -> Self {
                    Self::$name(response)
                }
            }
        )*
    };
}

bodies! {
    InitProducerId(InitProducerIdRequest, InitProducerIdResponse),
    AddPartitionsToTxn(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse<'static>),
    AddOffsetsToTxn(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    EndTxn(EndTxnRequest, EndTxnResponse),
    ListTransactions(ListTransactionsRequest, ListTransactionsResponse<'static>),
    DescribeTransactions(DescribeTransactionsRequest, DescribeTransactionsResponse<'static>),
}
