package workspace

import "strings"

// atenPlain are the operators whose kernels take nothing beside their results: views, factories, copies, element-wise
// operators (one TensorIterator kernel each), those that walk over indices without sorting, and foreach kernels.
var atenPlain = plain(`
	view _unsafe_view reshape _reshape_alias as_strided as_strided_ t transpose permute expand squeeze unsqueeze
	slice select split split_with_sizes unbind detach detach_ alias diagonal unfold view_as_real view_as_complex
	real imag narrow swapaxes movedim t_ transpose_ squeeze_ unsqueeze_ lift lift_fresh lift_fresh_copy view_as
	_conj conj resolve_conj resolve_neg unflatten squeeze_copy view_copy expand_copy diagonal_copy t_copy transpose_copy permute_copy select_copy slice_copy
	unsqueeze_copy detach_copy alias_copy as_strided_copy chunk prim::device

	empty empty_strided empty_like empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones
	ones_like new_ones full full_like new_full scalar_tensor arange linspace eye rand rand_like randn randn_like
	randint randint_like tril_indices triu_indices normal normal_ uniform_ bernoulli bernoulli_ random_ exponential_
	log_normal_ cauchy_ geometric_ trunc_normal_ poisson set_ resize_ _resize_output_

	clone _to_copy copy_ copy contiguous fill fill_ zero_ cat stack repeat constant_pad_nd pad flip tril triu tril_
	triu_ rot90 _pin_memory is_pinned record_stream _local_scalar_dense item equal is_same_size

	add sub rsub mul div add_ sub_ mul_ div_ neg neg_ abs abs_ sign sgn reciprocal reciprocal_ sqrt sqrt_ rsqrt
	rsqrt_ square pow pow_ exp exp_ exp2 expm1 log log2 log10 log1p log_ sin cos tan asin acos atan sinh cosh tanh
	tanh_ asinh acosh atanh atan2 erf erfc erfinv floor floor_ ceil ceil_ round round_ trunc frac sigmoid sigmoid_
	logit special_xlog1py xlogy lgamma digamma hypot floor_divide remainder remainder_ fmod maximum minimum fmax
	fmin clamp clamp_ clamp_min clamp_min_ clamp_max clamp_max_ where addcmul addcmul_ addcdiv addcdiv_ lerp lerp_
	masked_fill masked_fill_ eq ne lt le gt ge eq_ ne_ lt_ le_ gt_ ge_ isnan isinf isfinite isclose nan_to_num
	nan_to_num_ logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor
	bitwise_and_ bitwise_or_ bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ __and__ __or__ logaddexp
	heaviside copysign sinc polar complex angle bucketize searchsorted deg2rad

	relu relu_ relu6 threshold threshold_ threshold_backward leaky_relu leaky_relu_ leaky_relu_backward elu elu_
	elu_backward gelu gelu_backward silu silu_ silu_backward mish mish_ mish_backward hardswish hardswish_
	hardswish_backward hardsigmoid hardsigmoid_ hardsigmoid_backward hardtanh hardtanh_ hardtanh_backward softplus
	softplus_backward sigmoid_backward tanh_backward log_sigmoid_forward log_sigmoid_backward hardshrink
	hardshrink_backward softshrink softshrink_backward celu celu_ selu selu_ _prelu_kernel _prelu_kernel_backward
	glu glu_backward rrelu_with_noise logit_backward native_dropout_backward _masked_scale

	max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
	max_pool3d_with_indices_backward adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d
	adaptive_max_pool3d_backward avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward _adaptive_avg_pool2d
	_adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward upsample_nearest1d
	upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d
	upsample_trilinear3d upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
	upsample_linear1d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward
	upsample_trilinear3d_backward _upsample_nearest_exact2d _upsample_nearest_exact2d_backward
	_upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa reflection_pad1d
	reflection_pad2d reflection_pad3d reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward
	replication_pad1d replication_pad2d replication_pad3d replication_pad1d_backward replication_pad2d_backward
	replication_pad3d_backward pixel_shuffle pixel_unshuffle channel_shuffle grid_sampler_2d
	grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward affine_grid_generator cudnn_grid_sampler
	cudnn_grid_sampler_backward cudnn_affine_grid_generator cudnn_affine_grid_generator_backward
	torchvision::roi_align torchvision::_roi_align_backward torchvision::roi_pool torchvision::_roi_pool_backward
	torchvision::ps_roi_align torchvision::_ps_roi_align_backward

	index index_select index_select_backward index_add index_add_ index_fill index_fill_ index_copy index_copy_
	gather scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ take take_along_dim
	select_backward slice_backward select_scatter slice_scatter diagonal_backward unfold_backward
	diag diag_embed _unsafe_index one_hot embedding_renorm_ isin tril_indices value_selecting_reduction_backward

	index_reduce addr trace renorm dist cummin _cummax_helper _cummin_helper isneginf isposinf signbit nextafter
	ldexp frexp logaddexp2 gcd lcm i0 igamma igammac polygamma mvlgamma rad2deg conj_physical range logspace random
	normal_functional soft_margin_loss_backward multi_margin_loss multi_margin_loss_backward
	multilabel_margin_loss_forward multilabel_margin_loss_backward max_unpool2d max_unpool3d fractional_max_pool2d
	fractional_max_pool2d_backward fractional_max_pool3d fractional_max_pool3d_backward _upsample_nearest_exact1d
	_upsample_nearest_exact1d_backward _upsample_nearest_exact3d _upsample_nearest_exact3d_backward
	_upsample_bicubic2d_aa_backward linalg_cross put put_ rrelu_with_noise_backward _standard_gamma _standard_gamma_grad
	_sample_dirichlet _dirichlet_grad binomial _ctc_loss _fused_dropout _add_relu lu_unpack log_normal cauchy
	exponential geometric uniform _embedding_bag _embedding_bag_forward_only

	_foreach_add _foreach_add_ _foreach_sub _foreach_sub_ _foreach_mul _foreach_mul_ _foreach_div _foreach_div_
	_foreach_sqrt _foreach_sqrt_ _foreach_rsqrt _foreach_neg _foreach_neg_ _foreach_abs _foreach_abs_
	_foreach_addcmul _foreach_addcmul_ _foreach_addcdiv _foreach_addcdiv_ _foreach_lerp _foreach_lerp_
	_foreach_maximum _foreach_maximum_ _foreach_minimum _foreach_minimum_ _foreach_clamp_min _foreach_clamp_min_
	_foreach_clamp_max _foreach_clamp_max_ _foreach_copy _foreach_copy_ _foreach_zero_ _foreach_pow _foreach_pow_
	_foreach_reciprocal _foreach_reciprocal_ _foreach_sign _foreach_sign_ _foreach_exp _foreach_exp_
	_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _fused_adam_ _fused_adamw_ _fused_sgd_
	_fused_adagrad_

	_c10d_functional::all_reduce _c10d_functional::all_gather_into_tensor _c10d_functional::reduce_scatter_tensor
	_c10d_functional::all_to_all_single _c10d_functional::broadcast _c10d_functional::wait_tensor

	profiler::_record_function_enter_new profiler::_record_function_exit
`)

func plain(names string) (rows []operator) {
	for _, name := range strings.Fields(names) {
		rows = append(rows, operator{name, nil})
	}
	return rows
}
