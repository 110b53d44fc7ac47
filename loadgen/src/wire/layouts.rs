//! The layouts of the answers that are read, from Kafka's message definitions.

use super::shape::Kind::{Array, Bytes, Fixed, Nullable, Plain, String, Structure};
use super::shape::{Field, Kind, Layout};

/// A field of all versions.
const fn all(kind: Kind) -> Field {
    Field { kind, from: 0, to: i16::MAX }
}

const fn since(from: i16, kind: Kind) -> Field {
    Field { kind, from, to: i16::MAX }
}

const fn between(from: i16, to: i16, kind: Kind) -> Field {
    Field { kind, from, to }
}

const BOOL: Kind = Fixed(1);
const I16: Kind = Fixed(2);
const I32: Kind = Fixed(4);
const I64: Kind = Fixed(8);
const UUID: Kind = Fixed(16);

pub(super) fn layout(api_key: i16) -> Option<&'static Layout> {
    Some(match api_key {
        0 => &PRODUCE,
        1 => &FETCH,
        2 => &LIST_OFFSETS,
        3 => &METADATA,
        8 => &OFFSET_COMMIT,
        9 => &OFFSET_FETCH,
        10 => &FIND_COORDINATOR,
        11 => &JOIN_GROUP,
        12 => &HEARTBEAT,
        13 => &LEAVE_GROUP,
        14 => &SYNC_GROUP,
        16 => &LIST_GROUPS,
        17 => &SASL_HANDSHAKE,
        18 => &API_VERSIONS,
        19 => &CREATE_TOPICS,
        20 => &DELETE_TOPICS,
        22 => &INIT_PRODUCER_ID,
        24 => &ADD_PARTITIONS_TO_TXN,
        25 => &ADD_OFFSETS_TO_TXN,
        26 => &END_TXN,
        28 => &TXN_OFFSET_COMMIT,
        32 => &DESCRIBE_CONFIGS,
        36 => &SASL_AUTHENTICATE,
        37 => &CREATE_PARTITIONS,
        42 => &DELETE_GROUPS,
        44 => &INCREMENTAL_ALTER_CONFIGS,
        68 => &CONSUMER_GROUP_HEARTBEAT,
        76 => &SHARE_GROUP_HEARTBEAT,
        78 => &SHARE_FETCH,
        79 => &SHARE_ACKNOWLEDGE,
        88 => &STREAMS_GROUP_HEARTBEAT,
        90 => &DESCRIBE_SHARE_GROUP_OFFSETS,
        _ => return None,
    })
}

static PRODUCE: Layout = Layout {
    flexible_from: 9,
    fields: &[
        all(Array(&[
            between(0, 12, String),
            since(13, UUID),
            all(Array(&[
                all(I32),                                  // partition
                all(I16),                                  // error
                all(I64),                                  // base offset
                since(2, I64),                             // append time
                since(5, I64),                             // log start
                since(8, Array(&[all(I32), all(String)])), // errors of records
                since(8, String),                          // message
            ])),
        ])),
        since(1, I32), // throttle time
    ],
    tagged: &[(0, Array(&[all(I32), all(String), all(I32), all(String)]))], // nodes
};

static FETCH: Layout = Layout {
    flexible_from: 12,
    fields: &[
        since(1, I32), // throttle time
        since(7, I16), // error
        since(7, I32), // session
        all(Array(&[
            between(0, 12, String),
            since(13, UUID),
            all(Array(&[
                all(I32),                               // partition
                all(I16),                               // error
                all(I64),                               // high watermark
                since(4, I64),                          // last stable offset
                since(5, I64),                          // log start
                since(4, Array(&[all(I64), all(I64)])), // aborted transactions
                since(11, I32),                         // preferred replica
                all(Bytes),
            ])),
        ])),
    ],
    tagged: &[(0, Array(&[all(I32), all(String), all(I32), all(String)]))], // nodes
};

static LIST_OFFSETS: Layout = Layout {
    flexible_from: 6,
    fields: &[
        since(2, I32), // throttle time
        all(Array(&[
            all(String),
            all(Array(&[
                all(I32),                   // partition
                all(I16),                   // error
                between(0, 0, Plain(&I64)), // offsets
                since(1, I64),              // timestamp
                since(1, I64),              // offset
                since(4, I32),              // leader epoch
            ])),
        ])),
    ],
    tagged: &[],
};

static METADATA: Layout = Layout {
    flexible_from: 9,
    fields: &[
        since(3, I32), // throttle time
        all(Array(&[all(I32), all(String), all(I32), since(1, String)])),
        since(2, String), // cluster id
        since(1, I32),    // controller
        all(Array(&[
            all(I16), // error
            all(String),
            since(10, UUID),
            since(1, BOOL),
            all(Array(&[
                all(I16),      // error
                all(I32),      // partition
                all(I32),      // leader
                since(7, I32), // leader epoch
                all(Plain(&I32)),
                all(Plain(&I32)),
                since(5, Plain(&I32)),
            ])),
            since(8, I32), // authorized operations
        ])),
        between(8, 10, I32), // authorized operations
        since(13, I16),      // error
    ],
    tagged: &[],
};

static OFFSET_COMMIT: Layout = Layout {
    flexible_from: 8,
    fields: &[
        since(3, I32), // throttle time
        all(Array(&[between(0, 9, String), since(10, UUID), all(Array(&[all(I32), all(I16)]))])),
    ],
    tagged: &[],
};

/// Partition, offset, leader epoch, metadata, error.
const FETCHED: &[Field] = &[all(I32), all(I64), since(5, I32), all(String), all(I16)];

static OFFSET_FETCH: Layout = Layout {
    flexible_from: 6,
    fields: &[
        since(3, I32), // throttle time
        between(0, 7, Array(&[all(String), all(Array(FETCHED))])),
        between(2, 7, I16), // error
        since(
            8,
            Array(&[
                all(String), // group
                all(Array(&[between(8, 9, String), since(10, UUID), all(Array(FETCHED))])),
                all(I16), // error
            ]),
        ),
    ],
    tagged: &[],
};

static FIND_COORDINATOR: Layout = Layout {
    flexible_from: 3,
    fields: &[
        since(1, I32),         // throttle time
        between(0, 3, I16),    // error
        between(1, 3, String), // message
        between(0, 3, I32),    // node
        between(0, 3, String), // host
        between(0, 3, I32),    // port
        // key, node, host, port, error, message
        since(4, Array(&[all(String), all(I32), all(String), all(I32), all(I16), all(String)])),
    ],
    tagged: &[],
};

static JOIN_GROUP: Layout = Layout {
    flexible_from: 6,
    fields: &[
        since(2, I32),    // throttle time
        all(I16),         // error
        all(I32),         // generation
        since(7, String), // protocol type
        all(String),      // protocol
        all(String),      // leader
        since(9, BOOL),   // skip assignment
        all(String),      // member
        all(Array(&[all(String), since(5, String), all(Bytes)])),
    ],
    tagged: &[],
};

static HEARTBEAT: Layout =
    Layout { flexible_from: 4, fields: &[since(1, I32), all(I16)], tagged: &[] };

static LEAVE_GROUP: Layout = Layout {
    flexible_from: 4,
    fields: &[
        since(1, I32), // throttle time
        all(I16),
        since(3, Array(&[all(String), all(String), all(I16)])),
    ],
    tagged: &[],
};

static SYNC_GROUP: Layout = Layout {
    flexible_from: 4,
    fields: &[
        since(1, I32), // throttle time
        all(I16),
        since(5, String),
        since(5, String),
        all(Bytes),
    ],
    tagged: &[],
};

static SASL_HANDSHAKE: Layout =
    Layout { flexible_from: i16::MAX, fields: &[all(I16), all(Plain(&String))], tagged: &[] };

static SASL_AUTHENTICATE: Layout = Layout {
    flexible_from: 2,
    fields: &[all(I16), all(String), all(Bytes), since(1, I64)],
    tagged: &[],
};

static API_VERSIONS: Layout = Layout {
    flexible_from: 3,
    fields: &[
        all(I16), // error
        all(Array(&[all(I16), all(I16), all(I16)])),
        since(1, I32), // throttle time
    ],
    tagged: &[
        (0, Array(&[all(String), all(I16), all(I16)])), // supported features
        (1, I64),                                       // epoch of
        (2, Array(&[all(String), all(I16), all(I16)])), // finalized features
        (3, BOOL),
    ],
};

/// Throttle time, error, producer id, producer epoch; two more from version 6 on.
static INIT_PRODUCER_ID: Layout = Layout {
    flexible_from: 2,
    fields: &[all(I32), all(I16), all(I64), all(I16), since(6, I64), since(6, I16)],
    tagged: &[],
};

/// Topics with partitions and errors.
const ADDED: Kind = Array(&[all(String), all(Array(&[all(I32), all(I16)]))]);

static ADD_PARTITIONS_TO_TXN: Layout = Layout {
    flexible_from: 3,
    fields: &[
        all(I32),                                    // throttle time
        since(4, I16),                               // error
        since(4, Array(&[all(String), all(ADDED)])), // by transaction
        between(0, 3, ADDED),
    ],
    tagged: &[],
};

static ADD_OFFSETS_TO_TXN: Layout =
    Layout { flexible_from: 3, fields: &[all(I32), all(I16)], tagged: &[] };

static END_TXN: Layout = Layout {
    flexible_from: 3,
    fields: &[all(I32), all(I16), since(5, I64), since(5, I16)],
    tagged: &[],
};

static TXN_OFFSET_COMMIT: Layout =
    Layout { flexible_from: 3, fields: &[all(I32), all(ADDED)], tagged: &[] };

static CREATE_TOPICS: Layout = Layout {
    flexible_from: 5,
    fields: &[
        since(2, I32), // throttle time
        all(Array(&[
            all(String),
            since(7, UUID),
            all(I16),
            since(1, String),
            since(5, I32), // partitions
            since(5, I16), // replication factor
            since(5, Array(&[all(String), all(String), all(BOOL), all(Fixed(1)), all(BOOL)])),
        ])),
    ],
    tagged: &[],
};

static DELETE_TOPICS: Layout = Layout {
    flexible_from: 4,
    fields: &[
        since(1, I32), // throttle time
        all(Array(&[all(String), since(6, UUID), all(I16), since(5, String)])),
    ],
    tagged: &[],
};

static DESCRIBE_CONFIGS: Layout = Layout {
    flexible_from: 4,
    fields: &[
        all(I32), // throttle time
        all(Array(&[
            all(I16),      // error
            all(String),   // message
            all(Fixed(1)), // resource type
            all(String),   // resource
            all(Array(&[
                all(String),   // name
                all(String),   // value
                all(BOOL),     // read only
                all(Fixed(1)), // source
                all(BOOL),     // sensitive
                all(Array(&[all(String), all(String), all(Fixed(1))])),
                since(3, Fixed(1)), // type
                since(3, String),   // documentation
            ])),
        ])),
    ],
    tagged: &[],
};

static CREATE_PARTITIONS: Layout = Layout {
    flexible_from: 2,
    fields: &[all(I32), all(Array(&[all(String), all(I16), all(String)]))],
    tagged: &[],
};

static LIST_GROUPS: Layout = Layout {
    flexible_from: 3,
    fields: &[
        since(1, I32), // throttle time
        all(I16),      // error
        all(Array(&[all(String), all(String), since(4, String), since(5, String)])),
    ],
    tagged: &[],
};

static DELETE_GROUPS: Layout = Layout {
    flexible_from: 2,
    fields: &[all(I32), all(Array(&[all(String), all(I16)]))],
    tagged: &[],
};

static INCREMENTAL_ALTER_CONFIGS: Layout = Layout {
    flexible_from: 1,
    fields: &[
        all(I32), // throttle time
        all(Array(&[all(I16), all(String), all(Fixed(1)), all(String)])),
    ],
    tagged: &[],
};

/// The heartbeats of consumer groups and share groups alike.
const MEMBERSHIP: &[Field] = &[
    all(I32),    // throttle time
    all(I16),    // error
    all(String), // message
    all(String), // member
    all(I32),    // epoch
    all(I32),    // heartbeat interval
    all(Nullable(&[all(Array(&[all(UUID), all(Plain(&I32))]))])),
];

static CONSUMER_GROUP_HEARTBEAT: Layout =
    Layout { flexible_from: 0, fields: MEMBERSHIP, tagged: &[] };

static SHARE_GROUP_HEARTBEAT: Layout = Layout { flexible_from: 0, fields: MEMBERSHIP, tagged: &[] };

/// Subtopology and partitions.
const TASKS: Kind = Array(&[all(String), all(Plain(&I32))]);

/// Topic and partitions.
const OF_TOPICS: Kind = Array(&[all(String), all(Plain(&I32))]);

static STREAMS_GROUP_HEARTBEAT: Layout = Layout {
    flexible_from: 0,
    fields: &[
        all(I32),                                  // throttle time
        all(I16),                                  // error
        all(String),                               // message
        all(String),                               // member
        all(I32),                                  // epoch
        all(I32),                                  // heartbeat interval
        all(I32),                                  // acceptable recovery lag
        all(I32),                                  // task offset interval
        all(Array(&[all(Fixed(1)), all(String)])), // statuses
        all(TASKS),                                // active
        all(TASKS),                                // standby
        all(TASKS),                                // warm-up
        all(I32),                                  // epoch of endpoints
        all(Array(&[all(Structure(&[all(String), all(I16)])), all(OF_TOPICS), all(OF_TOPICS)])),
    ],
    tagged: &[],
};

/// Node, host, port, rack.
const NODE_ENDPOINTS: Kind = Array(&[all(I32), all(String), all(I32), all(String)]);

/// Node and epoch.
const LEADER: Kind = Structure(&[all(I32), all(I32)]);

static SHARE_FETCH: Layout = Layout {
    flexible_from: 0,
    fields: &[
        all(I32),    // throttle time
        all(I16),    // error
        all(String), // message
        all(I32),    // lock duration
        all(Array(&[
            all(UUID),
            all(Array(&[
                all(I32),    // partition
                all(I16),    // error
                all(String), // message
                all(I16),    // error of acknowledgements
                all(String), // its message
                all(LEADER),
                all(Bytes),                                  // records
                all(Array(&[all(I64), all(I64), all(I16)])), // acquired
            ])),
        ])),
        all(NODE_ENDPOINTS),
    ],
    tagged: &[],
};

static SHARE_ACKNOWLEDGE: Layout = Layout {
    flexible_from: 0,
    fields: &[
        all(I32),      // throttle time
        all(I16),      // error
        all(String),   // message
        since(2, I32), // lock duration
        all(Array(&[
            all(UUID),
            all(Array(&[
                all(I32),    // partition
                all(I16),    // error
                all(String), // message
                all(LEADER),
            ])),
        ])),
        all(NODE_ENDPOINTS),
    ],
    tagged: &[],
};

static DESCRIBE_SHARE_GROUP_OFFSETS: Layout = Layout {
    flexible_from: 0,
    fields: &[
        all(I32), // throttle time
        all(Array(&[
            all(String), // group
            all(Array(&[
                all(String), // topic
                all(UUID),
                all(Array(&[
                    all(I32),      // partition
                    all(I64),      // start offset
                    all(I32),      // leader epoch
                    since(1, I64), // lag
                    all(I16),      // error
                    all(String),   // message
                ])),
            ])),
            all(I16),    // error
            all(String), // message
        ])),
    ],
    tagged: &[],
};
