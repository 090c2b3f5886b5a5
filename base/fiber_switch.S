/*
 * fiber_switch.S - the switch between two stacks: save what the ABI says a callee keeps, change the
 * stack pointer, restore. Signal mask and floating-point control words are not switched: no code here
 * changes them.
 *
 * void fiber_switch(void **save_sp, void *to_sp);
 * fiber_switch_entry is the first return address on a new stack; the word(s) prepared by
 * fiber_ctx_init arrive in callee-saved registers: the entry function and its argument.
 */
#if defined(__x86_64__)

	.text
	.globl	fiber_switch
	.type	fiber_switch, @function
	.p2align 4
fiber_switch:
	.cfi_startproc
	endbr64
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	.cfi_adjust_cfa_offset 48
	.cfi_offset %rbp, -16
	.cfi_offset %rbx, -24
	.cfi_offset %r12, -32
	.cfi_offset %r13, -40
	.cfi_offset %r14, -48
	.cfi_offset %r15, -56
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -48
	ret
	.cfi_endproc
	.size	fiber_switch, .-fiber_switch

	.globl	fiber_switch_entry
	.type	fiber_switch_entry, @function
	.p2align 4
fiber_switch_entry:
	.cfi_startproc
	.cfi_undefined %rip
	endbr64
	movq	%r13, %rdi
	call	*%r12
	ud2
	.cfi_endproc
	.size	fiber_switch_entry, .-fiber_switch_entry

#elif defined(__aarch64__)

	.text
	.globl	fiber_switch
	.type	fiber_switch, %function
	.p2align 4
fiber_switch:
	.cfi_startproc
	sub	sp, sp, #160
	.cfi_adjust_cfa_offset 160
	stp	x19, x20, [sp, #0]
	stp	x21, x22, [sp, #16]
	stp	x23, x24, [sp, #32]
	stp	x25, x26, [sp, #48]
	stp	x27, x28, [sp, #64]
	stp	x29, x30, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	.cfi_offset x29, -80
	.cfi_offset x30, -72
	mov	x9, sp
	str	x9, [x0]
	mov	sp, x1
	ldp	x19, x20, [sp, #0]
	ldp	x21, x22, [sp, #16]
	ldp	x23, x24, [sp, #32]
	ldp	x25, x26, [sp, #48]
	ldp	x27, x28, [sp, #64]
	ldp	x29, x30, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	add	sp, sp, #160
	.cfi_adjust_cfa_offset -160
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	fiber_switch, .-fiber_switch

	.globl	fiber_switch_entry
	.type	fiber_switch_entry, %function
	.p2align 4
fiber_switch_entry:
	.cfi_startproc
	.cfi_undefined x30
	mov	x0, x20
	blr	x19
	brk	#1
	.cfi_endproc
	.size	fiber_switch_entry, .-fiber_switch_entry

#else
#error "fiber_switch.S: no switch for this processor"
#endif

	.section .note.GNU-stack, "", %progbits
