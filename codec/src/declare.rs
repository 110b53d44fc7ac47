//! [`message!`] declares a message once for all its versions. Decoding, encoding and defaults
//! follow from the declaration.
//!
//! Each field is one line, which covers all versions.

/// Declares the structures of a message, with their fields in the order of the wire:
///
/// ```text
/// message! {
///     pub struct Member<'a> {
///         member_id: Str<'a>, 0..;
///         group_instance_id: Option<Str<'a>>, 5.., nullable 5..;
///         reason: Option<Str<'a>> = None, 0.., tag 0;
///     }
/// }
/// ```
///
/// A field has a name, a type, and the versions that carry it. Optional parts are: a default
/// (otherwise that of the type), the versions in which the field may be null (otherwise all of
/// them), and the tag of a tagged field. In versions that do not carry it, the field is read as its
/// default and is not written.
macro_rules! message {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident $(<$lt:lifetime>)? {$(
            $(#[$field_meta:meta])*
            $field:ident: $ty:ty $(= $default:expr)?, $versions:expr
                $(, nullable $nullable:expr)? $(, tag $tag:literal)?;
        )*}
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(rename_all = "camelCase", default)
        )]
        pub struct $name $(<$lt>)? {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl $(<$lt>)? Default for $name $(<$lt>)? {
            fn default() -> Self {
                Self { $($field: $crate::declare::message!(@default $($default)?),)* }
            }
        }

        $crate::declare::message! {
            @field $name [$($lt)?]
            $($field: $ty, [$($default)?], $versions, [$($nullable)?], [$($tag)?];)*
        }
    )*};

    (@default) => { Default::default() };
    (@default $default:expr) => { $default };

    // A structure without a lifetime parameter needs a lifetime here too: it reads from a
    // `Reader<'a>`.
    (@field $name:ident [] $($rest:tt)*) => {
        $crate::declare::message! { @impls ['a] ($name) $($rest)* }
    };
    (@field $name:ident [$lt:lifetime] $($rest:tt)*) => {
        $crate::declare::message! { @impls [$lt] ($name<$lt>) $($rest)* }
    };

    (@impls [$lt:lifetime] ($self:ty) $($field:ident: $ty:ty, [$($default:expr)?], $versions:expr,
        [$($nullable:expr)?], [$($tag:literal)?];)*) => {
        impl<$lt> $crate::field::Field<$lt> for $self {
            #[allow(unused_mut, unused_variables)]
            fn read(
                reader: &mut $crate::wire::Reader<$lt>,
                version: $crate::field::Version,
            ) -> $crate::wire::Result<Self> {
                // Each field is read into a variable of its own. An assignment to a field of an
                // existing message would be slower, because it has to drop the field's old value.
                $(let mut $field: $ty = if $crate::declare::message!(@is_plain $($tag)?)
                    && ($versions).contains(&version.number)
                {
                    let value = <$ty as $crate::field::Field>::read(reader, version)?;
                    $($crate::declare::message!(@non_null value, $nullable, version);)?
                    value
                } else {
                    $crate::declare::message!(@default $($default)?)
                };)*
                if version.flexible {
                    $crate::field::read_tagged(reader, |tag, field| {
                        $($(
                            if tag == $tag && ($versions).contains(&version.number) {
                                $field = <$ty as $crate::field::Field>::read(field, version)?;
                            }
                        )?)*
                        Ok(())
                    })?;
                }
                Ok(Self { $($field,)* })
            }

            #[allow(unused_mut, unused_variables)]
            fn write(&self, out: &mut Vec<u8>, version: $crate::field::Version) {
                $($crate::declare::message!(@plain [$($tag)?] {
                    if ($versions).contains(&version.number) {
                        $crate::field::Field::write(&self.$field, out, version);
                    }
                });)*
                if version.flexible {
                    let default = Self::default();
                    let count_at = out.len();
                    out.push(0);
                    $($(
                        if ($versions).contains(&version.number) && self.$field != default.$field {
                            out[count_at] += 1;
                            $crate::field::put_tagged(out, $tag, &self.$field, version);
                        }
                    )?)*
                }
            }

            fn held(&self) -> usize {
                0 $(+ $crate::field::Field::held(&self.$field))*
            }

            fn longest_string(&self) -> usize {
                0 $(.max($crate::field::Field::longest_string(&self.$field)))*
            }

            #[allow(unused_variables)]
            fn errors(&self, _: bool, visit: &mut impl FnMut(i16)) {
                $(
                    let is_code = stringify!($field) == "error_code";
                    $crate::field::Field::errors(&self.$field, is_code, visit);
                )*
            }
        }

        #[allow(dead_code)]
        impl<$lt> $self {
            /// The field `throttle_time_ms`; None if the message lacks it.
            pub(crate) fn throttle_time_ms(&mut self) -> Option<&mut i32> {
                $(
                    if stringify!($field) == "throttle_time_ms" {
                        return $crate::field::Field::as_i32(&mut self.$field);
                    }
                )*
                None
            }
        }

        impl<$lt> $crate::field::Nullable<$lt> for $self {
            fn read_nullable(
                reader: &mut $crate::wire::Reader<$lt>,
                version: $crate::field::Version,
            ) -> $crate::wire::Result<Option<Self>> {
                if reader.i8()? < 0 {
                    return Ok(None);
                }
                $crate::field::Field::read(reader, version).map(Some)
            }

            fn write_nullable(
                value: Option<&Self>,
                out: &mut Vec<u8>,
                version: $crate::field::Version,
            ) {
                out.push(if value.is_some() { 1 } else { 0xff });
                if let Some(value) = value {
                    $crate::field::Field::write(value, out, version);
                }
            }

            fn held_by(value: &Self) -> usize {
                $crate::field::Field::held(value)
            }

            fn longest_string_of(value: &Self) -> usize {
                $crate::field::Field::longest_string(value)
            }

            fn errors_of(value: &Self, visit: &mut impl FnMut(i16)) {
                $crate::field::Field::errors(value, false, visit);
            }
        }
    };

    (@is_plain) => { true };
    (@is_plain $tag:literal) => { false };

    (@plain [] $code:block) => { $code };
    (@plain [$tag:literal] $code:block) => {};

    (@non_null $value:expr, $nullable:expr, $version:ident) => {
        if $value.is_none() && !($nullable).contains(&$version.number) {
            return Err($crate::wire::DecodeError::UnexpectedNull);
        }
    };
}

pub(crate) use message;
