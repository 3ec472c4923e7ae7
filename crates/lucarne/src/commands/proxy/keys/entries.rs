//! Keys of entries in lists.

use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Table};

/// Keys of an entry of `rules`.
pub(crate) static RULE: Table = Table::of(&[&HOST, &ACTION]);

/// Keys of an entry of `upstream.proxy`.
pub(crate) static THROUGH: Table = Table::of(&[&HOST, &URL, &PASSWORD]);

/// Keys of an entry of `certificates` and of `upstream.certificates`.
pub(crate) static PAIR: Table = Table::of(&[&HOST, &CERTIFICATE, &KEY]);

pub(crate) static HOST: Key<Shape> =
    Key::new("host", Shape::Text, "all hosts", "pattern of the hosts");

pub(crate) static ACTION: Key<Shape> =
    Key::new("action", Shape::Text, "required", "`intercept` or `tunnel`");

pub(crate) static URL: Key<Shape> = Key::new(
    "url",
    Shape::Text,
    "required",
    "URL of the proxy: `http://` or `https://`, `[user@]host:port`; or `direct`",
);

pub(crate) static PASSWORD: Key<Shape> = Key::new(
    "password",
    Shape::Secret,
    "none",
    "source of the password of the user in the URL",
);

pub(crate) static CERTIFICATE: Key<Shape> = Key::new(
    "certificate",
    Shape::Text,
    "required",
    "PEM file of the certificate and its intermediates",
);

pub(crate) static KEY: Key<Shape> =
    Key::new("key", Shape::Text, "`certificate`", "PEM file of the key");
