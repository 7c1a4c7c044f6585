//! The processes beside the API server: they watch, plan, write and admit.
