//! The declaration of a section: [`section!`](crate::section).

use std::num::NonZeroU32;

use crate::form::Readable;

/// Declares the keys of a section, each with its documentation, form and default.
///
/// ```
/// use lucarne_settings::form::{Boolean, Shape, Sizes};
///
/// #[derive(Default)]
/// struct Cache {
///     bytes: usize,
///     shared: Option<bool>,
/// }
///
/// lucarne_settings::section! {
///     for Cache = [Cache { bytes: 1 << 20, ..Cache::default() }];
///
///     /// Memory for tiles,
///     /// in bytes.
///     #[beside("`--memory`")]
///     memory: Sizes = Sizes::within(0, 1 << 30) => bytes;
///
///     /// Whether other processes use the cache.
///     shared: Boolean = Boolean, "what the kernel says" => shared;
///
///     /// A key that other code reads.
///     place: Shape = Shape::Text, "none";
/// }
///
/// assert_eq!(TABLE.names(), ["memory", "shared", "place"]);
/// assert_eq!(KEYS.memory.about.default(), "1MiB");
/// assert_eq!(KEYS.memory.about.meaning, "Memory for tiles, in bytes.");
/// ```
///
/// A declaration creates `KEYS`, a struct with the [`Key`](crate::Key) of each name, and `TABLE`,
/// the [`Table`](crate::Table) of these keys. With `for`, it also creates `read`, which reads the
/// keys with `=> field` into the fields of the settings. The documented default of these keys is
/// the value of the field in the settings after `for`; the second settings, if any, are those of a
/// log in a bucket. A text before `=>` replaces this default in the documentation. `is VALUE` is
/// the default of a key that other code reads.
///
/// `#![following]` documents the keys in the table of the key of their map.
#[macro_export]
macro_rules! section {
    ($(#![$follow:ident])? for $target:ty = $defaults:expr; $($declared:tt)*) => {
        $crate::section! { @keys [$($follow)?] [$target] [$defaults] $($declared)* }
        $crate::section! { @read [$target] $($declared)* }
    };
    (@keys [$($follow:ident)?] [$target:ty] [$defaults:expr] $(
        $(#[doc = $doc:literal])+
        $(#[beside($beside:expr)])?
        $key:ident: $form:ty = $value:expr
            $(, $default:literal)? $(, is $applied:expr)? $(=> $($field:ident).+)?;
    )*) => {
        /// The keys of the section.
        pub(crate) struct Keys {
            $($(#[doc = $doc])+ pub(crate) $key: $crate::Key<$form>,)*
        }

        pub(crate) static KEYS: Keys = Keys {
            $($key: {
                let meaning = concat!($($doc),+).trim_ascii();
                $crate::Key::new(stringify!($key), $value, "", meaning)
                    $(.beside($beside))?
                    $(.documented($default))?
                    $(.defaulting(|| $crate::form::Readable::show(&$value, &$applied)))?
                    $(.defaulting(|| {
                        let value = |it: $target| $crate::Field::value(&it.$($field).+);
                        $crate::default_of::<$form>(&$value, &$defaults.map(value))
                    }))?
            },)*
        };

        /// The keys in the order of the documentation.
        pub(crate) static TABLE: $crate::Table =
            $crate::Table::of(&[$(&KEYS.$key),*])$(.$follow())?;
    };
    (@read [$target:ty] $(
        $(#[doc = $doc:literal])+
        $(#[beside($beside:expr)])?
        $key:ident: $form:ty = $value:expr
            $(, $default:literal)? $(, is $applied:expr)? $(=> $($field:ident).+)?;
    )*) => {
        /// Reads the keys into `settings`, which has the defaults.
        pub(crate) fn read(reader: &mut $crate::Reader<'_, '_>, settings: &mut $target) {
            $($(
                if let Some(value) = $crate::form::Readable::read(&KEYS.$key, reader) {
                    settings.$($field).+ = $crate::Field::of(value);
                }
            )?)*
        }
    };
    ($(#![$follow:ident])? #[doc = $doc:literal] $($declared:tt)*) => {
        $crate::section! { @keys [$($follow)?] [()] [[()]] #[doc = $doc] $($declared)* }
    };
}

/// A field of settings for a value of type `V`.
pub trait Field<V> {
    /// Creates the field from a value of the file.
    fn of(value: V) -> Self;

    /// Returns the value of the file that means the same; `None` if it is the absence of the key.
    fn value(&self) -> Option<V>;
}

impl<V: Clone> Field<V> for V {
    fn of(value: V) -> Self {
        value
    }

    fn value(&self) -> Option<V> {
        Some(self.clone())
    }
}

impl<V: Clone> Field<V> for Option<V> {
    fn of(value: V) -> Self {
        Some(value)
    }

    fn value(&self) -> Option<V> {
        self.clone()
    }
}

/// Numbers have the bounds of their form, which are within those of the field.
impl Field<u64> for usize {
    fn of(value: u64) -> Self {
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    fn value(&self) -> Option<u64> {
        Some(*self as u64)
    }
}

impl Field<u64> for Option<usize> {
    fn of(value: u64) -> Self {
        usize::try_from(value).ok()
    }

    fn value(&self) -> Option<u64> {
        self.map(|value| value as u64)
    }
}

impl Field<u64> for Option<NonZeroU32> {
    fn of(value: u64) -> Self {
        NonZeroU32::new(u32::try_from(value).ok()?)
    }

    fn value(&self) -> Option<u64> {
        self.map(|value| value.get().into())
    }
}

/// Returns the default of a form as Markdown: the value on a disk, and the value in a bucket, if
/// there is another one. Returns an empty text if the default is the absence of the key.
pub fn default_of<F: Readable>(form: &F, values: &[Option<F::Read>]) -> String {
    let shown = values.iter().flatten().map(|value| form.show(value));
    let shown: Vec<String> = shown.collect();
    match &shown[..] {
        [] => String::new(),
        [disk, bucket] if disk != bucket => format!("{disk}; {bucket} in a bucket"),
        [one, ..] => one.clone(),
    }
}
