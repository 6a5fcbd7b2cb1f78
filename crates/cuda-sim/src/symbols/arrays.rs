//! Arrays.

use crate::abi::{In, Out};
use crate::handle::Handle;
use crate::session::with;
use crate::structs::{Array3DDescriptor, ArrayDescriptor, ArrayMapInfo};
use std::ffi::c_uint;

export! {
    3020 fn cuArrayCreate_v2(array: Out<Handle>, shape: In<ArrayDescriptor>) {
        with(|session| {
            let (array, shape) = (array.required()?, shape.get()?);
            let dimensions = [shape.width, shape.height, 0];
            let shape = Array3DDescriptor::new(dimensions, shape.format, shape.channels);
            array.set(session.create_array(shape)?)
        })
    }

    3020 fn cuArray3DCreate_v2(array: Out<Handle>, shape: In<Array3DDescriptor>) {
        with(|session| {
            let array = array.required()?;
            array.set(session.create_array(shape.get()?)?)
        })
    }

    2000 fn cuArrayDestroy(array: Handle) { with(|session| session.destroy_array(array)) }

    5000 fn cuMipmappedArrayCreate(array: Out<Handle>, shape: In<Array3DDescriptor>, levels: c_uint) {
        with(|session| {
            let array = array.required()?;
            array.set(session.create_mipmap(shape.get()?, levels)?)
        })
    }

    5000 fn cuMipmappedArrayDestroy(array: Handle) { with(|session| session.destroy_array(array)) }
}

export_pairs! {
    11010 fn cuMemMapArrayAsync / cuMemMapArrayAsync_ptsz(
        zero;
        bindings: In<ArrayMapInfo>,
        count: c_uint,
        stream: Handle,
    ) {
        with(|session| {
            session.stream(stream, zero)?;
            bindings.list(count as usize)?.iter().try_for_each(|binding| session.bind(binding))
        })
    }
}
