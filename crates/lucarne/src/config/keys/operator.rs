//! Keys under `operator`.

use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[&NAME, &EMAILS]);

pub(crate) static NAME: Key<Shape> = Key::new(
    "name",
    Shape::Text,
    "required",
    "Name of the organization or person.",
);

pub(crate) static EMAILS: Key<Shape> = Key::new(
    "emails",
    Shape::List(&Shape::Text),
    "required",
    "Contact addresses: one e-mail address or a list.",
);
